//! Reports: what a format can say of a file beyond a model, under an id that its manifest declares.

/// The answer of [`crate::Reader::report`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The text for people: lines without a final line end. Whatever it quotes of the file is escaped
    /// (see [`crate::escape`]).
    pub text: String,
    /// The same for programs: a JSON object whose `schema` names the report and its version (`toy.scan/1`).
    pub json: String,
    /// Whether the answer is "yes, all is well"; "no" is exit code 5.
    pub passed: bool,
}
