//! Tokenizes long texts in overlapping windows: bounded memory, and the same ids as for the whole text.
//!
//! Two windows share the text around the cut between them. They are joined only if both have the same tokens
//! at the same positions over the half of it nearest to the cut. If they never agree, the window grows.

use super::{Placed, Tokens};
use apr_sdk::{Error, Result};

/// Initial bytes of a window. 256 KiB: the library needs some 300 bytes for each.
const WINDOW: usize = 256 << 10;
/// Initial bytes shared by two windows.
const SHARED: usize = 16 << 10;
/// Bytes of the longest window.
const LONGEST: usize = 2 << 20;

/// Calls `put` with each token of a text.
///
/// # Errors
/// As [`Tokens::encode`].
pub fn each(tokens: &Tokens, text: &str, add_special: bool, put: &mut dyn FnMut(Placed)) -> Result<()> {
    if text.len() <= WINDOW {
        tokens.whole(text, add_special)?.iter().for_each(|token| put(*token));
        return Ok(());
    }
    let (head, tail) = around(tokens, add_special)?;
    head.iter().for_each(|&id| put(Placed { id, start: 0, end: 0 }));
    let mut left = Window::of(tokens, text, 0, WINDOW)?;
    let mut told = 0;
    while left.end < text.len() {
        left = join(tokens, text, left, &mut told, put)?;
    }
    left.tokens.iter().skip(told).for_each(|token| put(*token));
    tail.iter().for_each(|&id| put(Placed { id, start: text.len(), end: text.len() }));
    Ok(())
}

/// The ids added before and after every text.
fn around(tokens: &Tokens, add_special: bool) -> Result<(Vec<u32>, Vec<u32>)> {
    if !add_special {
        return Ok((Vec::new(), Vec::new()));
    }
    let plain: Vec<u32> = tokens.whole("a", false)?.iter().map(|token| token.id).collect();
    let whole: Vec<u32> = tokens.whole("a", true)?.iter().map(|token| token.id).collect();
    let at = whole.windows(plain.len().max(1)).position(|some| some == plain).unwrap_or(0);
    let behind = (at + plain.len()).min(whole.len());
    Ok((whole[..at].to_vec(), whole[behind..].to_vec()))
}

/// The last character boundary at or before `at`, or the end of the text.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A run of the text, with its tokens at their positions in the whole.
struct Window {
    start: usize,
    end: usize,
    tokens: Vec<Placed>,
}

impl Window {
    fn of(tokens: &Tokens, text: &str, start: usize, len: usize) -> Result<Window> {
        let start = boundary(text, start);
        let end = boundary(text, start.saturating_add(len).min(text.len()));
        let mut found = tokens.whole(&text[start..end], false)?;
        for token in &mut found {
            (token.start, token.end) = (token.start + start, token.end + start);
        }
        Ok(Window { start, end, tokens: found })
    }

    /// Index of the first token that begins at or after `at`, if there is a token boundary at that point.
    fn boundary(&self, at: usize) -> Option<usize> {
        let first = self.tokens.partition_point(|token| token.start < at);
        let whole =
            first.checked_sub(1).is_none_or(|before| self.tokens.get(before).is_some_and(|t| t.end <= at));
        (whole && self.tokens.get(first).is_some_and(|token| token.start == at)).then_some(first)
    }

    /// The tokens between two positions.
    fn between(&self, from: usize, to: usize) -> &[Placed] {
        let first = self.tokens.partition_point(|token| token.start < from);
        let last = self.tokens.partition_point(|token| token.start < to);
        self.tokens.get(first..last).unwrap_or_default()
    }
}

/// Reports the tokens of `left` up to a cut, and returns the next window; `told` are those reported before.
fn join(
    tokens: &Tokens,
    text: &str,
    mut left: Window,
    told: &mut usize,
    put: &mut dyn FnMut(Placed),
) -> Result<Window> {
    let mut shared = SHARED;
    loop {
        let right = Window::of(tokens, text, left.end.saturating_sub(shared), WINDOW.max(4 * shared))?;
        let from = right.start + shared / 4;
        let to = left.end.saturating_sub(shared / 4);
        if let Some((last, first)) = cut(&left, &right, from, to) {
            left.tokens.iter().take(last).skip(*told).for_each(|token| put(*token));
            *told = first;
            return Ok(right);
        }
        shared *= 4;
        if shared > LONGEST / 4 {
            let from = left.end - left.end.min(shared);
            let to = left.end;
            return Err(Error::limit(format!("the text cannot be split between bytes {from} and {to}"))
                .hint("split the text into several parts, or avoid such long words"));
        }
        // The left window needs the same amount of context, and its reported tokens must stay the same.
        let grown = Window::of(tokens, text, left.start, left.end - left.start + shared)?;
        let same = left.tokens.get(..*told) == grown.tokens.get(..*told);
        if !same {
            return Err(Error::limit("tokens of a long text depend on text too far ahead")
                .hint("split the text into several parts"));
        }
        left = grown;
        if left.end == text.len() {
            return Ok(left);
        }
    }
}

/// The boundary between `from` and `to` around which both windows have the same tokens: index of the first token after
/// it, on the left and on the right.
fn cut(left: &Window, right: &Window, from: usize, to: usize) -> Option<(usize, usize)> {
    let middle = from + (to - from) / 2;
    if left.between(from, to) != right.between(from, to) || left.between(from, to).len() < 16 {
        return None;
    }
    let candidates = left.between(middle, to).iter().map(|token| token.start);
    candidates.into_iter().find_map(|at| Some((left.boundary(at)?, right.boundary(at)?)))
}
