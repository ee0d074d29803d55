//! Recognises the family of a chat template by the marks that only that family writes around a turn.

/// Families by their marks, most specific first: all marks in a line must occur. The names are those of
/// llama.cpp's `--chat-template`, with the marks that its `llama-chat.cpp` looks for; `gpt-oss` is ours.
const FAMILIES: &[(&str, &[&str])] = &[
    ("gpt-oss", &["<|start|>", "<|channel|>"]),
    ("phi4", &["<|im_start|>", "<|im_sep|>"]),
    ("smolvlm", &["<|im_start|>", "<end_of_utterance>"]),
    ("chatml", &["<|im_start|>"]),
    ("mistral-v7", &["[INST]", "[SYSTEM_PROMPT]"]),
    ("mistral-v1", &["' [INST] ' + system_message"]),
    ("mistral-v1", &["[AVAILABLE_TOOLS]", " [INST]"]),
    ("mistral-v3-tekken", &["[AVAILABLE_TOOLS]", "\"[INST]\""]),
    ("mistral-v3", &["[AVAILABLE_TOOLS]", "[INST]"]),
    ("llama2", &["[INST]"]),
    ("phi3", &["<|assistant|>", "<|end|>"]),
    ("chatglm4", &["[gMASK]<sop>"]),
    ("falcon3", &["<|assistant|>", "<|user|>", "</s>"]),
    ("glmedge", &["<|assistant|>", "<|user|>"]),
    ("zephyr", &["<|user|>", "<|endoftext|>"]),
    ("monarch", &["bos_token + message['role']"]),
    ("gemma", &["<start_of_turn>"]),
    ("openchat", &["GPT4 Correct "]),
    ("vicuna-orca", &["USER: ", "ASSISTANT: ", "SYSTEM: "]),
    ("vicuna", &["USER: ", "ASSISTANT: "]),
    ("deepseek", &["### Instruction:", "<|EOT|>"]),
    ("command-r", &["<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"]),
    ("llama3", &["<|start_header_id|>", "<|end_header_id|>"]),
    ("llama4", &["<|header_start|>", "<|header_end|>"]),
    ("chatglm3", &["[gMASK]sop"]),
    ("minicpm", &["<\u{7528}\u{6237}>"]),
    ("deepseek3", &["<\u{ff5c}Assistant\u{ff5c}>"]),
    ("exaone4", &["[|assistant|]", "[|endofturn|]", "[|tool|]"]),
    ("exaone3", &["[|assistant|]", "[|endofturn|]"]),
    ("rwkv-world", &["rwkv-world"]),
    ("granite", &["<|start_of_role|>"]),
    ("megrez", &["<|role_start|>"]),
    ("bailing", &["<role>ASSISTANT</role>"]),
    ("kimi-k2", &["<|im_assistant|>", "<|im_middle|>"]),
    ("hunyuan-moe", &["<|startoftext|>", "<|extra_4|>"]),
];

/// The family of a template, or `other`.
pub(super) fn family(template: &str) -> &'static str {
    let family = FAMILIES.iter().find(|(_, marks)| marks.iter().all(|mark| template.contains(mark)));
    family.map_or("other", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::family;

    #[test]
    fn templates_are_told_apart_by_their_marks() {
        let of = [
            (
                "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}",
                "chatml",
            ),
            ("<|start_header_id|>{{ role }}<|end_header_id|>\n\n{{ content }}<|eot_id|>", "llama3"),
            ("[INST] <<SYS>>{{ system }}<</SYS>> {{ content }} [/INST]", "llama2"),
            ("[INST] {{ content }} [/INST]", "llama2"),
            ("[AVAILABLE_TOOLS] {{ tools }} [/AVAILABLE_TOOLS][INST]{{ content }} [/INST]", "mistral-v3"),
            ("<start_of_turn>{{ role }}\n{{ content }}<end_of_turn>", "gemma"),
            ("<|user|>\n{{ content }}<|end|>\n<|assistant|>", "phi3"),
            ("{{ messages }}", "other"),
        ];
        for (template, wanted) in of {
            assert_eq!(family(template), wanted, "{template}");
        }
    }
}
