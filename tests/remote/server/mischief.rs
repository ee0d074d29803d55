//! What a file server does to its clients: nothing, a [`Lie`] or a [`Stall`].

use std::sync::Mutex;

use super::liar::Lie;
use super::message::{Request, Response};
use super::ranges::Served;
use super::staller::Stall;

/// How files are served.
#[derive(Clone, Debug, Default)]
pub enum Habit {
    #[default]
    Honest,
    Lying(Lie),
    Stalling(Stall),
}

/// A habit, and how long it has been one.
#[derive(Debug, Default)]
pub(super) struct Mischief {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    habit: Habit,
    /// Requests answered in this habit.
    n_answered: u64,
    /// The first connection that a request came over.
    first_connection: Option<u64>,
}

impl Mischief {
    pub(super) fn new(habit: Habit) -> Self {
        Self { state: Mutex::new(State { habit, ..State::default() }) }
    }

    /// From now on it is this habit. Requests are counted anew.
    pub(super) fn take_up(&self, habit: Habit) {
        *self.state.lock().expect("nobody panics while it is held") = State { habit, ..State::default() };
    }

    /// The answer to a request for a file.
    pub(super) fn answer(&self, request: &Request, served: &Served) -> Response {
        let (habit, n_before, is_first) = {
            let mut state = self.state.lock().expect("nobody panics while it is held");
            state.n_answered += 1;
            let first = *state.first_connection.get_or_insert(request.connection);
            (state.habit.clone(), state.n_answered - 1, first == request.connection)
        };
        match habit {
            Habit::Honest => served.answer(request),
            Habit::Lying(lie) => lie.answer(request, served, n_before),
            Habit::Stalling(stall) => stall.answer(request, served, n_before, is_first),
        }
    }
}
