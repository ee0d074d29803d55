//! The terminal: taken over for as long as the explorer runs, and given back however it ends.

use super::keys::{Key, key};
use super::state::{App, End};
use super::views::{Theme, draw};
use super::worker::{Job, News};
use apr_engine::progress::Progress;
use apr_sdk::{Error, LogLevel, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::crossterm::{event, execute};
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::panic::{set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// Time that a key, a signal or news may wait to be seen: while there is work, and while there is none.
const TICKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// Characters of a screen that is drawn. 512 Ki: four times what 8K shows in the smallest type; each takes some hundred bytes.
const MOST_CELLS: u64 = 512 << 10;

/// True if the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, ours until this is dropped.
pub struct Screen {
    /// Never dropped: it would print, and panic where that fails, what [`give_back`] does quietly.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// Io, and the terminal is as it was; LimitExceeded for one that is too large.
    pub fn take() -> Result<Screen> {
        check_size()?;
        Screen::prepared().map_err(|error| {
            give_back();
            unusable(&error)
        })
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// LimitExceeded for a terminal that is too large; Io.
    pub fn draw(&mut self, render: &mut dyn FnMut(&mut Frame<'_>)) -> Result<()> {
        check_size()?;
        self.terminal.draw(|frame| render(frame)).map(|_| ()).map_err(|error| unusable(&error))
    }

    /// Waits a while for events, and returns those that are there, each as the key that it is.
    ///
    /// # Errors
    /// Io.
    pub fn events(&self) -> Result<Vec<Option<Key>>> {
        let mut events = Vec::new();
        let mut is_there = event::poll(TICKS[1]).map_err(|error| unusable(&error))?;
        while is_there {
            events.push(key(&event::read().map_err(|error| unusable(&error))?));
            is_there = event::poll(Duration::ZERO).map_err(|error| unusable(&error))?;
        }
        Ok(events)
    }

    fn prepared() -> io::Result<Screen> {
        TAKEN.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Screen { terminal: ManuallyDrop::new(terminal) })
    }
}

/// Refuses a terminal of more characters than are drawn: memory for all of them is taken at once.
fn check_size() -> Result<()> {
    let (columns, rows) = size().map_err(|error| unusable(&error))?;
    if u64::from(columns) * u64::from(rows) <= MOST_CELLS {
        return Ok(());
    }
    let error = Error::limit(format!(
        "the terminal reports {columns} columns and {rows} rows, more than the limit of {MOST_CELLS} \
         characters"
    ));
    Err(error.hint("make it smaller, or correct a wrong report with `stty rows 50 columns 200`"))
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes the terminal what it was; does nothing the second time.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// From now on, a panic of this thread gives the terminal back before its message; one of another is told in the view. Called
/// before plugins are loaded, whose hook keeps their panics to itself.
pub fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    let ours = thread::current().id();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if thread::current().id() == ours {
                give_back();
            }
            let is_hidden = TAKEN.load(Ordering::Relaxed);
            if !is_hidden {
                before(info);
            }
        }));
    });
}

fn unusable(error: &io::Error) -> Error {
    Error::io(format!("cannot use the terminal: {error}"))
        .hint("run `apr inspect FILE` or `apr tensors FILE`, which only print")
}

/// The host's news of its work, for the screen to show and for later.
#[derive(Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Watch {
    /// Warnings from plugins.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}

impl Progress for Watch {
    fn bytes(&self, done: u64, total: u64, _what: &str) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }

    fn log(&self, level: LogLevel, message: &str) {
        /// Of a plugin that says the same of every tensor, the first few are enough.
        const MOST: usize = 20;
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = level == LogLevel::Warning && warnings.len() < MOST;
        if is_told && !warnings.iter().any(|known| known == message) {
            warnings.push(message.to_owned());
        }
    }
}

/// The ways from and to the worker and the signals.
pub struct Wires<'w> {
    /// To the worker.
    pub jobs: Sender<Job>,
    /// From it.
    pub news: Receiver<News>,
    /// Stops what it does.
    pub cancel: &'w AtomicBool,
    /// Set by a signal.
    pub stopped: &'w AtomicBool,
    /// The host's news.
    pub watch: &'w Watch,
}

/// Draws frames and takes keys until the user leaves.
///
/// # Errors
/// Io from the terminal.
pub fn explore(app: &mut App, wires: &Wires<'_>, theme: Theme) -> Result<End> {
    let mut screen = Screen::take()?;
    let mut is_stale = true;
    let mut drawn = Size::default();
    loop {
        check_size()?;
        let size = screen.terminal.size().map_err(|e| unusable(&e))?;
        is_stale |= size != drawn;
        drawn = size;
        is_stale |= attend(app, wires) || app.running.is_some();
        if wires.stopped.load(Ordering::Relaxed) {
            return Ok(End::Stopped);
        }
        if is_stale {
            screen.terminal.draw(|frame| draw(frame, app, theme)).map_err(|e| unusable(&e))?;
        }
        let tick = TICKS[usize::from(app.running.is_none())];
        is_stale = event::poll(tick).map_err(|e| unusable(&e))?;
        // All that is there, so that a key held down is not drawn once for each time.
        while event::poll(Duration::ZERO).map_err(|e| unusable(&e))? {
            let event = event::read().map_err(|e| unusable(&e))?;
            if let Some(end) = key(&event).and_then(|key| app.press(key)) {
                return Ok(end);
            }
        }
    }
}

/// Hears the worker and gives it the next job; whether anything changed.
fn attend(app: &mut App, wires: &Wires<'_>) -> bool {
    let mut changed = false;
    loop {
        match wires.news.try_recv() {
            Ok(news) => app.hear(news),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => {
                app.running = None;
                return true;
            }
        }
        changed = true;
    }
    if app.must_stop() {
        wires.cancel.store(true, Ordering::Relaxed);
    }
    if let Some(job) = app.begin() {
        wires.cancel.store(false, Ordering::Relaxed);
        wires.watch.bytes(0, 0, "");
        changed = true;
        if wires.jobs.send(job).is_err() {
            app.running = None;
        }
    }
    app.progress = app.running.map(|_| wires.watch.progress());
    changed
}
