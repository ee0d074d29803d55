//! Parses a model's name: `get_model_id_components` and `id_to_title` of gguf-py.

/// The components of a name; `None` for those it does not have.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Components {
    /// The whole name, without the organization.
    pub name: Option<String>,
    /// Who made the model.
    pub organization: Option<String>,
    /// The name of the family.
    pub basename: Option<String>,
    /// What it was tuned for.
    pub finetune: Option<String>,
    /// The version, such as `v1.5`.
    pub version: Option<String>,
    /// The size in words, such as `7B`.
    pub size_label: Option<String>,
}

/// What a component of a name could be.
#[derive(Clone, Copy, Default)]
struct Marks {
    basename: bool,
    size: bool,
    finetune: bool,
    version: bool,
    kind: bool,
}

impl Marks {
    fn count(self) -> usize {
        [self.basename, self.size, self.finetune, self.version, self.kind].iter().filter(|m| **m).count()
    }
}

/// Parses a name; `total` is the model's number of weights, or 0.
pub fn components(id: &str, total: u64) -> Components {
    if id.contains(' ') {
        return Components { name: Some(id.to_owned()), ..Components::default() };
    }
    let (organization, name) = match id.split_once('/') {
        Some((org, name)) => (Some(org).filter(|org| !org.starts_with('.')), name),
        None => (None, id),
    };
    let mut parts: Vec<String> = name.split('-').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let mut marks = vec![Marks::default(); parts.len()];
    for (at, (part, mark)) in parts.iter_mut().zip(&mut marks).enumerate() {
        annotate(at, part, mark, total);
    }
    let numbered = parts.iter().zip(&marks).any(|(p, m)| m.size && p.chars().any(|c| c.is_ascii_digit()));
    if numbered {
        for (part, mark) in parts.iter().zip(&mut marks) {
            mark.size &= !part.chars().all(char::is_alphabetic);
        }
    }
    mark_basename(&parts, &mut marks);
    let join = |chosen: &dyn Fn(&Marks) -> bool| {
        let words: Vec<&str> =
            parts.iter().zip(&marks).filter(|(_, m)| chosen(m)).map(|(p, _)| p.as_str()).collect();
        (!words.is_empty()).then(|| words.join("-"))
    };
    let mut sizes: Vec<&str> = Vec::new();
    for (part, mark) in parts.iter().zip(&marks) {
        if mark.size && !sizes.contains(&part.as_str()) {
            sizes.push(part);
        }
    }
    let size_label = (!sizes.is_empty()).then(|| sizes.join("-"));
    let finetune = join(&|m| m.finetune);
    let version = join(&|m| m.version && !m.basename);
    let told = size_label.is_some() || finetune.is_some() || version.is_some();
    Components {
        name: Some(name.to_owned()),
        organization: organization.map(str::to_owned),
        basename: join(&|m| m.basename).filter(|_| told),
        finetune,
        version,
        size_label,
    }
}

fn annotate(at: usize, part: &mut String, mark: &mut Marks, total: u64) {
    let lower = part.to_lowercase();
    if is_version(&lower) {
        mark.version = true;
    } else if is_type(&lower) {
        mark.kind = true;
        *part = part.to_uppercase();
    } else if at > 0 && is_size(&lower) {
        let mut text = part.replace('_', ".");
        let chars: Vec<char> = text.chars().collect();
        // `7b1` means 7.1b.
        if let [head @ .., letter, digit] = &chars[..]
            && digit.is_ascii_digit()
        {
            text = head.iter().chain(&['.', *digit, *letter]).collect();
        }
        let chars: Vec<char> = text.chars().collect();
        if let [head @ .., digit, letter] = &chars[..]
            && digit.is_ascii_digit()
            && "kmbt".contains(*letter)
        {
            text = head.iter().chain(&[*digit, letter.to_ascii_uppercase()]).collect();
        }
        if let Some(far) = is_far(&text, total) {
            mark.finetune = true;
            text = far;
        }
        mark.size = !mark.finetune;
        *part = text;
    } else if at > 0 && ["chat", "instruct", "vision", "lora"].contains(&lower.as_str()) {
        mark.finetune = true;
    }
}

/// Returns the component unchanged if, rather than a size, it is probably a context length: too far from the
/// number of weights.
#[allow(clippy::cast_precision_loss, reason = "compared within a factor of 8")]
fn is_far(text: &str, total: u64) -> Option<String> {
    let letter = text.chars().last()?;
    let head = &text[..text.len() - letter.len_utf8()];
    // As in Python: a letter that is not among them counts as 1000^-1.
    let power = " KMBT".find(letter).map_or(-1, |n| i32::try_from(n).unwrap_or(0));
    let size: f64 = head.parse().ok().filter(|_| total > 0)?;
    let far = (size * 1000f64.powi(power) - total as f64).abs() > (7 * u128::from(total) / 8) as f64;
    far.then(|| format!("{head}{}", letter.to_lowercase()))
}

fn mark_basename(parts: &[String], marks: &mut [Marks]) {
    let mut at_start = true;
    for (part, mark) in parts.iter().zip(marks.iter_mut()) {
        let word = mark.count() == 0 && part.starts_with(char::is_alphabetic);
        if at_start && (word || mark.version) {
            mark.basename = true;
        } else {
            at_start = false;
            mark.finetune |= mark.count() == 0;
        }
    }
    for mark in marks.iter_mut().rev() {
        if !mark.basename || mark.count() < 2 {
            break;
        }
        mark.basename = false;
    }
}

/// Strips leading digits; `None` if there are none.
fn digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// `(v|iter)?\d+([.]\d+)*`
fn is_version(text: &str) -> bool {
    let text = text.strip_prefix("iter").or_else(|| text.strip_prefix('v')).unwrap_or(text);
    text.split('.').all(|part| digits(part) == Some(""))
}

/// `i?q\d(_\w)*|b?fp?(16|32)`
fn is_type(text: &str) -> bool {
    let float = text.strip_prefix('b').unwrap_or(text).strip_prefix('f');
    if float.is_some_and(|rest| ["16", "32"].contains(&rest.strip_prefix('p').unwrap_or(rest))) {
        return true;
    }
    let Some(rest) = text.strip_prefix('i').unwrap_or(text).strip_prefix('q') else { return false };
    let chars: Vec<char> = rest.chars().collect();
    let Some((first, rest)) = chars.split_first() else { return false };
    let pair =
        |pair: &[char]| pair.len() == 2 && pair[0] == '_' && (pair[1].is_alphanumeric() || pair[1] == '_');
    first.is_ascii_digit() && rest.chunks(2).all(pair)
}

/// `([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl`
fn is_size(text: &str) -> bool {
    if ["small", "mini", "medium", "large", "xl", "xxl"].contains(&text) {
        return true;
    }
    let after_times = digits(text).and_then(|rest| rest.strip_prefix('x'));
    let number = |text: &str| {
        let rest = digits(text)?;
        let fraction = rest.strip_prefix(['.', '_']).and_then(digits);
        let rest = fraction.unwrap_or(rest).strip_prefix(['k', 'm', 'b', 't'])?;
        let last = rest.is_empty() || (rest.len() == 1 && digits(rest).is_some());
        last.then_some(())
    };
    [after_times, text.strip_prefix('a'), Some(text)].into_iter().flatten().any(|text| number(text).is_some())
}

/// Converts a name to a title: capitalizes lower-case words, except versions and numbers.
pub fn title(text: &str) -> String {
    let spaced = text.trim().replace('-', " ");
    let words = spaced.split_whitespace().map(|word| {
        let small = word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        let version = word.strip_prefix('v').is_some_and(is_version) && !word.starts_with("viter");
        let counted = word.starts_with(|c: char| c.is_ascii_digit());
        if small && !version && !counted { capitals(word) } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Capitalizes the start of each run of letters.
fn capitals(word: &str) -> String {
    let mut before = false;
    let mut out = String::new();
    for c in word.chars() {
        if before {
            out.push(c)
        } else {
            out.extend(c.to_uppercase())
        }
        before = c.is_alphabetic();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of gguf-py 0.19: id, weights, then name, organization, basename, finetune, version, size.
    #[test]
    fn names_are_taken_apart_as_gguf_py_does() {
        for line in include_str!("model_ids.tsv").lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [id, total, name, organization, basename, finetune, version, size, titled] = fields[..]
            else {
                panic!("{line}");
            };
            let some = |text: &str| (text != "-").then(|| text.to_owned());
            let expected = Components {
                name: some(name),
                organization: some(organization),
                basename: some(basename),
                finetune: some(finetune),
                version: some(version),
                size_label: some(size),
            };
            let found = components(id, total.parse().unwrap());
            assert_eq!(found, expected, "{id} {total}");
            assert_eq!(title(&found.name.unwrap()), titled, "{id}");
        }
    }
}
