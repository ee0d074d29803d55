//! Reports: what a format can say about a file beyond the model, under an id declared in its manifest.

/// The result of [`crate::Reader::report`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For people: lines without a final line end. Anything quoted from the file is escaped (see
    /// [`crate::escape`]).
    pub text: String,
    /// For programs: a JSON object whose `schema` names the report and its version (`toy.scan/1`).
    pub json: String,
    /// True if all is well; if not, the exit code is 5.
    pub passed: bool,
}
