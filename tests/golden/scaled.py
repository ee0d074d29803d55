"""Which stored values are multiplied so that attention is sharp: queries and keys become three times as large, and scores
nine times. With seeded weights scores are small and attention is nearly even, and then hides how positions turn.

Each row says `tensor` (its name in the folder), `rows` or `columns` ([first, count]; null or absent: all) and `multiply`, and
where a norm's gain is 1 + w, `add`: w becomes multiply * w + add. Values are computed in F32 and not rounded to the stored type.
"""

MULTIPLY = 3.0


def scaled_tensors(described, config):
    names = {row["name"]: row["shape"] for file in described["files"] for row in file["tensors"]}
    norms = sorted(name for name in names if name.endswith(("self_attn.q_norm.weight", "self_attn.k_norm.weight")))
    if norms:
        # What stands before a norm may have any scale, its gain may not.
        one_more = {"add": MULTIPLY - 1} if config["model_type"].startswith("gemma") else {}
        return [{"tensor": name, "rows": None, "multiply": MULTIPLY} | one_more for name in norms]
    apart = ("self_attn.q_proj.", "self_attn.k_proj.", "attention.self.query.", "attention.self.key.")
    found = [{"tensor": name, "rows": None, "multiply": MULTIPLY} for name in sorted(names) if any(part in name for part in apart)]
    for name in sorted(names):
        if any(part in name for part in ("qkv_proj", "c_attn", "Wqkv", "query_key_value")):
            # GPT-2's matrices are transposed, its biases are not.
            key = "columns" if "c_attn.weight" in name else "rows"
            for first, count in fused(config, names[name], name):
                row = {"tensor": name, "rows": None, "multiply": MULTIPLY}
                found.append(row | {key: [first, count]})
    assert found, described["folder"]
    return found


def fused(config, shape, name):
    """Where queries and keys lie in a matrix that holds values too."""
    heads = config.get("num_attention_heads") or config.get("n_head") or config.get("n_heads")
    width = config.get("hidden_size") or config.get("n_embd") or config.get("d_model")
    head = width // heads
    if config["model_type"] in ("gpt_neox", "bloom"):
        # [head, 3, dim]
        return [(number * 3 * head, 2 * head) for number in range(heads)]
    if config["model_type"] == "falcon":
        # [group, its queries and one key and one value, dim]
        groups = config["num_kv_heads"]
        members = heads // groups + 2
        assert shape[0] == groups * members * head, name
        return [(number * members * head, (members - 1) * head) for number in range(groups)]
    # All queries, then all keys.
    key_heads = config.get("num_key_value_heads", heads)
    assert max(shape) >= (heads + 2 * key_heads) * head, name
    return [(0, (heads + key_heads) * head)]
