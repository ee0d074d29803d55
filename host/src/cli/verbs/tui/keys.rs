//! The terminal's events, as the few keys that the explorer knows.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key that has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Up.
    Up,
    /// Down.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Takes back a character.
    Backspace,
    /// Ctrl-C, which arrives as a key.
    Interrupt,
}

/// The key of an event; `None` for what has no meaning here. A new size needs no key: the next frame has it.
pub fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    let is_control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_control || modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(*c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_is_no_c_and_a_release_is_no_key() {
        for (c, modifiers, pressed) in [
            ('c', KeyModifiers::NONE, Some(Key::Char('c'))),
            ('c', KeyModifiers::CONTROL, Some(Key::Interrupt)),
            ('q', KeyModifiers::CONTROL, None),
            ('T', KeyModifiers::SHIFT, Some(Key::Char('T'))),
        ] {
            assert_eq!(key(&Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers))), pressed);
        }
        let kind = KeyEventKind::Release;
        assert_eq!(key(&Event::Key(KeyEvent::new_with_kind(KeyCode::Up, KeyModifiers::NONE, kind))), None);
        assert_eq!(key(&Event::Resize(1, 1)), None);
    }
}
