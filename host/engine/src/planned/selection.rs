//! The choice of a source's tensors, and the names that the user gives them.

/// Patterns that select tensors by their names in the source; see [`glob`](crate::select::glob).
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Keep only what one of these matches; everything if there are none.
    pub include: Vec<String>,
    /// Leave out what one of these matches.
    pub exclude: Vec<String>,
    /// Leave out what one of these matches, with the user's consent that the output lacks it.
    pub drop: Vec<String>,
}

/// Rules for renaming the source's tensors.
#[derive(Clone, Debug, Default)]
pub struct Renaming {
    /// Select only tensors below this path, and strip it.
    pub prefix: Option<String>,
    /// Pairs of a source name and its replacement. Both may have placeholders for numbers: `h.{layer}.w`.
    pub mapping: Vec<(String, String)>,
}
