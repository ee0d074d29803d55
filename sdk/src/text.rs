//! Rules for text from a file: the characters that reach a terminal unescaped.

/// Returns whether `c` may be printed unescaped. Everything else is escaped wherever a file's text is shown, in text
/// and JSON alike: characters that terminals obey (control characters), that break lines (U+2028, U+2029), that change
/// the text direction, and that are invisible, so that two names would look the same. A space is printable; a line feed
/// and a tab are not.
pub fn is_printable(c: char) -> bool {
    !matches!(c,
        // Controls: C0, DEL, C1.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Unicode's format characters (Cf), and its line and paragraph separators.
        | '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Other invisible characters (Default_Ignorable_Code_Point): joiners, fillers, variation selectors,
        // tags.
        | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180d}' | '\u{180f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Makes text from a file safe to print: escapes what is not [printable](is_printable), and cuts it after
/// `longest` characters.
pub fn escape(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest));
    for (n, c) in text.chars().enumerate() {
        if n == longest {
            out.push('…');
            break;
        }
        push_escaped(&mut out, c);
    }
    out
}

/// Makes lines that a program composed safe to print: as [`escape`], but keeps line feeds and tabs.
pub fn escape_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            _ => push_escaped(&mut out, c),
        }
    }
    out
}

/// Writes `\uXXXX` for every character of a JSON document that is not [printable](is_printable): the same
/// document, safe on a terminal. Line feeds and tabs between values stay.
pub fn escape_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        // JSON already escapes the others inside strings; these two occur between values.
        if is_printable(c) || matches!(c, '\n' | '\t') {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

fn push_escaped(out: &mut String, c: char) {
    match is_printable(c) {
        true => out.push(c),
        false => out.extend(c.escape_default()),
    }
}

/// Returns whether a name has characters that no file name should: controls, and characters that break lines or change
/// the text direction. Joiners and variation selectors are fine: languages and emoji need them.
pub fn has_controls(name: &str) -> bool {
    name.chars().any(|c| {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}');
        c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}' | '\u{2066}'..='\u{2069}')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped() {
        assert_eq!(escape("a\0b\u{202e}\n", 10), "a\\u{0}b\\u{202e}\\n");
        assert_eq!(escape("abcdef", 3), "abc…");
        for c in
            "\u{1b}\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{200e}\u{2028}\u{2029}\u{2066}\u{feff}\u{fe0f}\u{e0041}"
                .chars()
        {
            assert!(!is_printable(c), "{c:?}");
            assert!(escape(&c.to_string(), 9).is_ascii(), "{c:?}");
        }
        assert_eq!(escape("für 模型 é ∞ 🙂", 99), "für 模型 é ∞ 🙂");
        assert_eq!(escape_lines("a\n\tb\u{1b}[31m"), "a\n\tb\\u{1b}[31m");
    }

    #[test]
    fn json_means_the_same_escaped() {
        let text = "a\u{7f}\u{9b}\u{2028}\u{e0041}é🙂";
        let document = serde_json::json!({ "k": text });
        let shown = escape_json(&document.to_string());
        assert!(shown.contains("\\u007f\\u009b\\u2028\\udb40\\udc41é🙂"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), document);
    }
}
