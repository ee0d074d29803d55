//! The state of the explorer, and what keys and news make of it. Nothing here touches the terminal or a file.

use super::contents::Contents;
use super::cursor::Cursor;
use super::keys::Key;
use super::worker::{Job, Measured, News, Task};
use crate::cli::verbs::tensors::tree::Line;
use apr_engine::diff::{Diff, Status};
use apr_sdk::ErrorKind;
use std::collections::HashMap;

/// The view on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The list of tensors.
    Tensors,
    /// The summary, and the statistics of every tensor.
    Stats,
    /// The distribution of one tensor's values.
    Histogram,
    /// The tree of the names.
    Graph,
    /// The differences from the other model.
    Compare,
}

/// The way the user left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With `q`.
    Quit,
    /// With Ctrl-C or a signal.
    Stopped,
}

/// The explorer.
#[derive(Debug)]
pub struct App {
    /// The contents of the header.
    pub contents: Contents,
    /// The view on the screen.
    pub view: View,
    /// True if the keys are listed instead.
    pub help: bool,
    /// True if the filter is being typed.
    pub editing: bool,
    /// The text that names must contain.
    pub filter: String,
    /// The tensors that pass the filter.
    pub shown: Vec<usize>,
    /// The place in them.
    pub list: Cursor,
    /// The place in the graph.
    pub tree: Cursor,
    /// The place in the comparison.
    pub pairs: Cursor,
    /// The measurements.
    pub measured: HashMap<usize, Measured>,
    /// The lines of the graph.
    pub graph: Option<Result<Vec<Line>, String>>,
    /// The comparison; tensors with a distance first.
    pub compared: Option<Result<Box<Diff>, String>>,
    /// The reason why not everything could be measured.
    pub failed: Option<String>,
    /// Progress of the job at work: the amount done, and the total.
    pub progress: Option<(u64, u64)>,
    /// The job at work.
    pub running: Option<Task>,
    /// True if the user wants it to stop.
    pub stopping: bool,
}

impl App {
    /// The explorer in one of its views.
    pub fn new(contents: Contents, view: View) -> App {
        let shown = (0..contents.rows.len()).collect();
        App {
            contents,
            view,
            help: false,
            editing: false,
            filter: String::new(),
            shown,
            list: Cursor::default(),
            tree: Cursor::default(),
            pairs: Cursor::default(),
            measured: HashMap::new(),
            graph: None,
            compared: None,
            failed: None,
            progress: None,
            running: None,
            stopping: false,
        }
    }

    /// The number of the selected tensor.
    pub fn selected(&self) -> Option<usize> {
        self.shown.get(self.list.at).copied()
    }

    /// Takes a key; tells whether it was the last.
    pub fn press(&mut self, key: Key) -> Option<End> {
        match key {
            Key::Interrupt => return Some(End::Stopped),
            _ if self.editing => self.edit(key),
            _ if self.help => self.help = false,
            Key::Char('q') => return Some(End::Quit),
            Key::Char('?') => self.help = true,
            Key::Char('/') => {
                self.editing = true;
                if matches!(self.view, View::Graph | View::Compare | View::Histogram) {
                    self.view = View::Tensors;
                }
            }
            Key::Char('t') => self.view = View::Tensors,
            Key::Char('s') => self.view = View::Stats,
            Key::Char('h') => self.view = View::Histogram,
            Key::Char('g') => self.view = View::Graph,
            Key::Char('c') => self.view = View::Compare,
            Key::Enter if matches!(self.view, View::Tensors | View::Stats) => self.view = View::Histogram,
            Key::Esc => self.back(),
            _ => {
                let (len, cursor) = match self.view {
                    View::Graph => (known(&self.graph).map_or(0, Vec::len), &mut self.tree),
                    View::Compare => {
                        (known(&self.compared).map_or(0, |found| found.tensors.len()), &mut self.pairs)
                    }
                    _ => (self.shown.len(), &mut self.list),
                };
                cursor.moved(key, len);
            }
        }
        None
    }

    /// Stops what is at work and goes back to the list; there, shows all of it.
    fn back(&mut self) {
        self.stopping = self.running.is_some();
        if self.view == View::Tensors && !self.stopping {
            self.set_filter(String::new());
        }
        self.view = View::Tensors;
    }

    fn edit(&mut self, key: Key) {
        let mut filter = self.filter.clone();
        match key {
            Key::Char(c) => filter.push(c),
            Key::Backspace => drop(filter.pop()),
            Key::Esc => {
                self.editing = false;
                filter.clear();
            }
            Key::Enter => {
                self.editing = false;
                return;
            }
            _ => {
                self.list.moved(key, self.shown.len());
                return;
            }
        }
        self.set_filter(filter);
    }

    /// Shows the tensors whose names contain `filter`, in any case; the selected one stays selected if it is one of them.
    fn set_filter(&mut self, filter: String) {
        let selected = self.selected();
        let wanted = filter.to_lowercase();
        let rows = self.contents.rows.iter().enumerate();
        let passing = rows.filter(|(_, row)| row.name.to_lowercase().contains(&wanted));
        self.shown = passing.map(|(number, _)| number).collect();
        self.filter = filter;
        self.list.at = self.shown.iter().position(|number| Some(*number) == selected).unwrap_or(0);
    }

    /// The task that the view needs and nobody has done yet.
    pub fn wanted(&self) -> Option<Task> {
        match self.view {
            View::Tensors => None,
            View::Stats => {
                let is_left = self.measured.len() < self.contents.rows.len() && self.failed.is_none();
                is_left.then_some(Task::All)
            }
            View::Histogram => {
                let number = self.selected()?;
                let is_whole = self.measured.get(&number).is_some_and(|measured| measured.is_whole);
                (!is_whole).then_some(Task::Tensor(number))
            }
            View::Graph => self.graph.is_none().then_some(Task::Graph),
            View::Compare => {
                (self.contents.other.is_some() && self.compared.is_none()).then_some(Task::Compare)
            }
        }
    }

    /// Returns whether the job at work is to stop: the user said so, or looks at something else that needs one.
    pub fn must_stop(&self) -> bool {
        self.running.is_some()
            && (self.stopping || self.wanted().is_some_and(|task| self.running != Some(task)))
    }

    /// Begins the job that the view needs, if none is at work.
    pub fn begin(&mut self) -> Option<Job> {
        let task = self.wanted().filter(|_| self.running.is_none())?;
        let numbers = match task {
            Task::All => {
                (0..self.contents.rows.len()).filter(|number| !self.measured.contains_key(number)).collect()
            }
            _ => Vec::new(),
        };
        (self.running, self.progress) = (Some(task), None);
        Some(Job { task, numbers })
    }

    /// Takes what the worker says.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Measured(number, measured) => drop(self.measured.insert(number, *measured)),
            News::Graph(lines) => self.graph = Some(Ok(lines)),
            News::Compared(mut found) => {
                // Sorted by distance already; what has one comes first.
                found.tensors.sort_by_key(|pair| rank(pair.status));
                self.compared = Some(Ok(found));
            }
            News::Note(text) => self.contents.summary.push(("note".to_owned(), text)),
            News::Ended(outcome) => {
                let task = self.running.take();
                (self.stopping, self.progress) = (false, None);
                if let Err(error) = outcome
                    && error.kind() != ErrorKind::Cancelled
                {
                    self.fail(task, error.to_string());
                }
            }
        }
    }

    fn fail(&mut self, task: Option<Task>, why: String) {
        match task {
            Some(Task::Tensor(number)) => {
                let failed = Measured { error: Some(why), is_whole: true, ..Measured::default() };
                self.measured.insert(number, failed);
            }
            Some(Task::All) => self.failed = Some(why),
            Some(Task::Graph) => self.graph = Some(Err(why)),
            Some(Task::Compare) => self.compared = Some(Err(why)),
            None => {}
        }
    }
}

/// The value, if it could be made.
fn known<T>(of: &Option<Result<T, String>>) -> Option<&T> {
    of.as_ref().and_then(|of| of.as_ref().ok())
}

/// The order of the comparison: distances, then what has none.
fn rank(status: Status) -> u8 {
    match status {
        Status::Different => 0,
        Status::WithinTolerance => 1,
        Status::Rounded => 2,
        Status::Shape => 3,
        Status::Dtype => 4,
        Status::OnlyInA => 5,
        Status::OnlyInB => 6,
        Status::Renamed => 7,
        Status::Equal => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_engine::verify::stats::TensorRow;
    use apr_sdk::Error;

    fn app(names: &[&str], view: View) -> App {
        let rows = names.iter().map(|name| row(name)).collect();
        App::new(Contents { rows, ..Contents::default() }, view)
    }

    fn row(name: &str) -> TensorRow {
        TensorRow {
            name: name.to_owned(),
            dtype: "F32".to_owned(),
            shape: vec![2],
            bytes: 8,
            file: None,
            offset: None,
            compressed: None,
            packed: None,
            sha256: None,
            stats: None,
            stats_missing: None,
            histogram: None,
        }
    }

    fn press(app: &mut App, keys: &str) {
        assert!(keys.chars().all(|key| app.press(Key::Char(key)).is_none()));
    }

    fn whole() -> Box<Measured> {
        Box::new(Measured { is_whole: true, ..Measured::default() })
    }

    #[test]
    fn q_quits_and_control_c_stops_also_while_a_filter_is_typed() {
        let mut app = app(&["a"], View::Tensors);
        assert_eq!(app.press(Key::Char('q')), Some(End::Quit));
        press(&mut app, "/q");
        assert_eq!(app.filter, "q");
        assert_eq!(app.press(Key::Interrupt), Some(End::Stopped));
    }

    #[test]
    fn a_filter_keeps_the_selected_tensor_and_escape_shows_all() {
        let mut app = app(&["a.x", "b.Norm", "c.norm"], View::Tensors);
        press(&mut app, "jj/NOR");
        assert_eq!((app.shown.as_slice(), app.selected()), ([1, 2].as_slice(), Some(2)));
        press(&mut app, "z");
        assert_eq!(app.selected(), None);
        app.press(Key::Backspace);
        app.press(Key::Enter);
        assert!(!app.editing && app.shown == [1, 2]);
        app.press(Key::Esc);
        assert_eq!((app.shown.len(), app.filter.as_str()), (3, ""));
    }

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let mut app = app(&["a", "b"], View::Tensors);
        assert!(app.begin().is_none());
        app.press(Key::Enter);
        assert_eq!(app.begin().unwrap().task, Task::Tensor(0));
        app.hear(News::Measured(0, whole()));
        app.hear(News::Ended(Ok(())));
        assert!(app.begin().is_none());
        press(&mut app, "s");
        let job = app.begin().unwrap();
        assert_eq!((job.task, job.numbers), (Task::All, vec![1]));
    }

    #[test]
    fn another_view_takes_the_worker_over_and_escape_stops_it() {
        let mut app = app(&["a", "b"], View::Stats);
        assert_eq!(app.begin().unwrap().numbers, [0, 1]);
        assert!(!app.must_stop() && app.begin().is_none());
        press(&mut app, "t");
        assert!(!app.must_stop(), "the list needs no worker");
        press(&mut app, "h");
        assert!(app.must_stop());
        app.hear(News::Ended(Err(Error::cancelled("stopped"))));
        assert_eq!(app.begin().unwrap().task, Task::Tensor(0));
        app.press(Key::Esc);
        assert!(app.must_stop() && app.view == View::Tensors);
        app.hear(News::Ended(Err(Error::cancelled("stopped"))));
        assert!(app.begin().is_none() && app.measured.is_empty());
    }

    #[test]
    fn what_fails_is_told_and_not_tried_for_ever() {
        let mut app = app(&["a"], View::Stats);
        for (key, task) in [('s', Task::All), ('g', Task::Graph), ('h', Task::Tensor(0))] {
            press(&mut app, &key.to_string());
            assert_eq!(app.begin().unwrap().task, task);
            app.hear(News::Ended(Err(Error::io("the disk is gone"))));
            assert!(app.begin().is_none(), "{task:?}");
        }
        let told = "E007 the disk is gone";
        assert_eq!(app.failed.as_deref(), Some(told));
        assert_eq!(app.measured[&0].error.as_deref(), Some(told));
        assert_eq!(app.graph.unwrap().unwrap_err(), told);
    }
}
