"""nomic-embed-text's forward pass, written out here: its code is not in the transformers that the goldens are made with.

Sum of token and type embeddings, normed; in each layer attention with rotated queries and keys, added and normed, then
`fc2(fc11(x) * silu(fc12(x)))`, added and normed. No positions but the rotation, and no biases but the norms'.
"""

import json

import torch
from safetensors.torch import load_file
from torch.nn.functional import layer_norm, silu


class Held:
    """One result, as transformers' models return it."""

    def __init__(self, last_hidden_state):
        self.last_hidden_state = last_hidden_state


class NomicBert:
    def __init__(self, config, weights):
        assert not config["prenorm"] and not config["use_rms_norm"] and not config["rotary_emb_interleaved"], config
        assert config["rotary_emb_fraction"] == 1.0 and config["rotary_scaling_factor"] is None, config
        self.config, self.weights = config, weights

    def named_parameters(self):
        return self.weights.items()

    def norm(self, name, x):
        return layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], self.config["layer_norm_epsilon"])

    def rotated(self, x):
        """x: [head, position, dim]; the first half of dim is turned with the second."""
        half = x.shape[-1] // 2
        rates = self.config["rotary_emb_base"] ** -(torch.arange(half, dtype=torch.float64) / half)
        angles = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), rates)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)

    def attention(self, at, x):
        count, width = x.shape
        heads = self.config["n_head"]
        # [3, head, position, dim]
        query, key, value = (x @ self.weights[f"{at}.Wqkv.weight"].T).view(count, 3, heads, width // heads).permute(1, 2, 0, 3)
        scores = self.rotated(query) @ self.rotated(key).transpose(1, 2) / (width // heads) ** 0.5
        mixed = scores.softmax(-1) @ value
        return mixed.transpose(0, 1).reshape(count, width) @ self.weights[f"{at}.out_proj.weight"].T

    def __call__(self, input_ids):
        weights = self.weights
        x = weights["embeddings.word_embeddings.weight"][input_ids[0]] + weights["embeddings.token_type_embeddings.weight"][0]
        x = self.norm("emb_ln", x)
        for layer in range(self.config["n_layer"]):
            at = f"encoder.layers.{layer}"
            x = self.norm(f"{at}.norm1", x + self.attention(f"{at}.attn", x))
            inner = (x @ weights[f"{at}.mlp.fc11.weight"].T) * silu(x @ weights[f"{at}.mlp.fc12.weight"].T)
            x = self.norm(f"{at}.norm2", x + inner @ weights[f"{at}.mlp.fc2.weight"].T)
        return Held(x[None])


def load(folder, dtype):
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / "model.safetensors").items()}
    return NomicBert(json.loads((folder / "config.json").read_text()), weights)
