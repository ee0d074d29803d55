//! Recorded graphs, by the form of their steps.

use crate::driver::Graph;

/// Graphs that are kept at most. A graph holds each kernel of the program with its parameters, in the host's memory and in the
/// device's, and a long text passes through forms that never come back: attention cuts its positions into more and more
/// runs. At any time few are in use: one for each number of rows up to [`FEW`](super::step::FEW), for tokens and for logits.
/// This is twice as many.
const MOST: usize = 32;

/// What makes two steps run the same kernels: rows, outputs, runs of positions, whether rows are brought, and how many tokens are
/// chosen.
pub(crate) type Form = (usize, usize, usize, bool, usize);

/// Graphs; of too many, the one that was not used for longest goes.
#[derive(Default)]
pub(crate) struct Graphs {
    /// The last is the one that was used last.
    kept: Vec<(Form, Box<dyn Graph>)>,
}

impl Graphs {
    /// The graph of a form.
    pub(crate) fn find(&mut self, form: Form) -> Option<&dyn Graph> {
        let place = self.kept.iter().position(|(kept, _)| *kept == form)?;
        self.kept[place..].rotate_left(1);
        self.kept.last().map(|(_, graph)| &**graph)
    }

    /// Keeps the graph of a form that has none.
    pub(crate) fn keep(&mut self, form: Form, graph: Box<dyn Graph>) {
        if self.kept.len() >= MOST {
            self.kept.remove(0);
        }
        self.kept.push((form, graph));
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered(u64);

    impl Graph for Numbered {
        fn handle(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn the_one_that_was_not_used_for_longest_goes() {
        let form = |number| (number, 0, 0, false, 0);
        let mut graphs = Graphs::default();
        (0..MOST).for_each(|number| graphs.keep(form(number), Box::new(Numbered(number as u64))));
        assert_eq!(graphs.find(form(0)).map(Graph::handle), Some(0));
        graphs.keep(form(MOST), Box::new(Numbered(99)));
        assert!(graphs.find(form(1)).is_none());
        assert_eq!(graphs.find(form(0)).map(Graph::handle), Some(0));
        assert_eq!(graphs.find(form(2)).map(Graph::handle), Some(2));
        assert_eq!(graphs.find(form(MOST)).map(Graph::handle), Some(99));
        assert_eq!(graphs.kept.len(), MOST);
    }
}
