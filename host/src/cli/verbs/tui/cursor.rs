//! A place in a list of any length, and the part of the list that is on the screen.

use super::keys::Key;
use std::ops::Range;

/// The selected line of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The selected line.
    pub at: usize,
    /// The first line on the screen.
    pub top: usize,
    /// The lines that fit on the screen, as of the last frame.
    page: usize,
}

impl Cursor {
    /// Moves in a list of `len` lines; whether the key was one that moves.
    pub fn moved(&mut self, key: Key, len: usize) -> bool {
        let page = self.page.max(1);
        let last = len.saturating_sub(1);
        self.at = match key {
            Key::Up | Key::Char('k') => self.at.saturating_sub(1),
            Key::Down | Key::Char('j') => self.at.saturating_add(1),
            Key::PageUp => self.at.saturating_sub(page),
            Key::PageDown => self.at.saturating_add(page),
            Key::Home => 0,
            Key::End => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// The lines of a list of `len` that a screen of `height` lines shows: the selected one is among them.
    pub fn visible(&mut self, height: usize, len: usize) -> Range<usize> {
        self.page = height;
        self.at = self.at.min(len.saturating_sub(1));
        self.top = self.top.min(self.at).min(len.saturating_sub(height));
        if self.at >= self.top + height.max(1) {
            self.top = self.at + 1 - height.max(1);
        }
        self.top..len.min(self.top + height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_line_stays_on_the_screen() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.visible(4, 10), 0..4);
        assert!(cursor.moved(Key::PageDown, 10));
        assert_eq!((cursor.at, cursor.visible(4, 10)), (4, 1..5));
        assert!(cursor.moved(Key::End, 10));
        assert_eq!((cursor.at, cursor.visible(4, 10)), (9, 6..10));
        // A filter shortens the list, a new size of the terminal lengthens the screen.
        assert_eq!((cursor.visible(4, 3), cursor.at), (0..3, 2));
        assert!(cursor.moved(Key::Home, 3) && cursor.moved(Key::Up, 3));
        assert_eq!(cursor.at, 0);
        assert!(!cursor.moved(Key::Enter, 3));
    }

    #[test]
    fn neither_an_empty_list_nor_an_empty_screen_is_an_error() {
        let mut cursor = Cursor::default();
        assert!(cursor.moved(Key::Down, 0) && cursor.moved(Key::End, 0));
        assert_eq!((cursor.visible(0, 0), cursor.at), (0..0, 0));
        cursor.at = 7;
        assert_eq!(cursor.visible(0, 10).len(), 0);
    }
}
