//! The table of stable codes: what each means, what usually causes it, what to do. The one place that explains them.

/// One code.
#[derive(Debug)]
pub struct Entry {
    /// As printed between the brackets of `error[…]`.
    pub code: &'static str,
    /// Two or three words.
    pub title: &'static str,
    /// One paragraph.
    pub meaning: &'static str,
    /// What usually causes it.
    pub causes: &'static [&'static str],
    /// What to do, in order.
    pub steps: &'static [&'static str],
    /// Whether the check that raises it is built.
    pub built: bool,
}

macro_rules! entries {
    ($($built:ident $code:literal $title:literal: $meaning:literal, $causes:expr, $steps:expr;)*) => {
        /// Every code there is.
        pub const ENTRIES: &[Entry] = &[$(Entry {
            code: $code,
            title: $title,
            meaning: $meaning,
            causes: &$causes,
            steps: &$steps,
            built: stringify!($built).as_bytes()[0] == b'n',
        }),*];
    };
}

entries! {
    now "E001" "not a model file":
        "No plugin recognises the file, or it is something else: an HTML page, a Git LFS pointer, a text.",
        ["the download saved an error page", "a Git LFS pointer was never replaced by its file", "the plugin for this format is not installed"],
        ["`apr plugins list` shows which formats are present", "download the file again, or `git lfs pull`", "`--from FORMAT` decides if two formats could own the file"];
    now "E002" "corrupted data":
        "The file breaks its own format's rules: it ends too early, a length or an offset leads outside, a name occurs twice.",
        ["an interrupted download", "a disk error", "a program that wrote the file wrongly"],
        ["compare the file's size and SHA-256 with its source", "download the file again", "`apr validate FILE --checksum` checks all of it"];
    now "E003" "unsupported version":
        "The file's format has a version that this reader does not know.",
        ["the file is newer than the plugin", "the version field is damaged"],
        ["`apr plugins info FORMAT` says what the plugin reads", "install a newer plugin"];
    now "E004" "checksum mismatch":
        "A checksum stored in the file differs from the one computed over its bytes.",
        ["the file changed after it was written", "an interrupted or faulty transfer"],
        ["copy or download the file again", "`apr validate FILE --checksum` names the place"];
    plan "E005" "decryption failed":
        "The passphrase is wrong, or an encrypted frame was changed.",
        ["a mistyped passphrase", "the file changed after it was encrypted"],
        ["try the passphrase again", "get a fresh copy of the file"];
    plan "E006" "signature invalid":
        "The signature in the file does not fit its contents or the expected key.",
        ["the file changed after it was signed", "it was signed with another key"],
        ["do not use the file", "ask its publisher for the key and a fresh copy"];
    now "E007" "input or output failed":
        "The machine refused to read or write: full disk, no permission, a file that exists or that changed while it was read.",
        ["the disk is full", "the folder cannot be written", "the output exists and `--force` was not given"],
        ["read the message: it has the system's own reason", "`apr convert IN OUT --plan` prints how many bytes the output needs"];
    now "E008" "limit exceeded":
        "The file claims more than a named limit allows, or opening it would use memory out of proportion to its header.",
        ["a damaged count or length", "a file made to exhaust memory"],
        ["treat the file as hostile unless you know its source", "report the file if it is genuine: limits have reasons, and they can be wrong"];

    now "E_NOT_FOUND" "no such plugin file":
        "A plugin was named that does not exist.",
        ["a mistyped path"],
        ["`apr plugins path` lists the folders that are searched"];
    now "E_UNTRUSTED" "plugin not trusted":
        "The library, or a folder above it, belongs to another user or can be changed by others; or it differs from what a lock pins. Nothing of it was run.",
        ["a folder that everybody may write", "a container whose files have another owner"],
        ["`chmod go-w` the file and its folders, or install it with `apr plugins install FILE`", "for a container, list the folder in `plugins.trusted_folders` of the configuration"];
    now "E_NOT_A_PLUGIN" "not a plugin":
        "The file is not a library, or has no manifest of an apr plugin. Nothing of it was run.",
        ["another library of the same name", "a stripped or cut file"],
        ["build it from the template that `apr plugins new NAME` writes"];
    now "E_TARGET" "plugin for another machine":
        "The library was built for another processor, operating system or C library. Nothing of it was run.",
        ["a download for another platform"],
        ["`apr --version` prints this program's target: get the plugin for that"];
    now "E_PANIC_ABORT" "plugin would abort the program":
        "The plugin was built with `panic = \"abort\"`: its first bug would end apr without cleaning up. Nothing of it was run.",
        ["a release profile with `panic = \"abort\"`"],
        ["build the plugin with `panic = \"unwind\"`"];
    now "E_ABI_MAJOR" "plugin interface too old or too new":
        "The plugin speaks another major version of the plugin interface. Nothing of it was run.",
        ["a plugin built for another release of apr"],
        ["install a build of the plugin for the interface that `apr --version` prints"];
    now "E_ABI_MINOR" "plugin needs a newer apr":
        "The plugin uses additions to the plugin interface that this apr lacks, or is a development build of another state. Nothing of it was run.",
        ["the plugin is newer than apr", "a plugin and an apr built from different sources before a release"],
        ["install a newer apr", "or build the plugin again from the same sources as apr"];
    now "E_DUPLICATE_ID" "provided twice":
        "Another plugin, found earlier in the search order, has the same id or provides the same format.",
        ["an installed copy beside a bundled one", "two folders with the same plugin"],
        ["`apr plugins list` shows both with their paths", "`apr plugins remove ID` removes the installed one"];
    now "E_DLOPEN" "library could not be loaded":
        "The system's loader refused the library.",
        ["it needs another library that is missing", "it was cut while it was copied"],
        ["`-v` prints the loader's own reason"];
    now "E_LAYOUT" "plugin built against another interface":
        "The types that cross between apr and the plugin do not fit, though the version numbers do.",
        ["a changed copy of the interface crate"],
        ["build the plugin against the published interface crate", "`-v` prints the differences"];
    now "E_INIT" "plugin failed to start":
        "The plugin's own constructor failed.",
        ["a bug in the plugin"],
        ["report it to the plugin's author with what `-v` prints"];
    now "E_CHANGED" "plugin changed while it was loaded":
        "What the loaded library says of itself differs from what its file said before.",
        ["the file was replaced at that moment"],
        ["run the command again"];
    now "E_PLUGIN" "plugin failed":
        "A plugin panicked or broke its contract. The output was not touched.",
        ["a bug in the plugin"],
        ["report it to the plugin's author with the message", "`apr plugins check FILE` runs the conformance list"];

    now "F-LAYOUT-CONTRACT-001" "shape is not the architecture's":
        "A weight does not have the shape that the architecture's table gives it under the model's configuration; where dimensions are counted innermost first, that is the reverse.",
        ["a transposed weight", "a configuration that belongs to another model"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`", "`--arch none` converts the model as a bag of tensors"];
    now "F-LAYOUT-CONTRACT-002" "output shape is not [vocabulary, hidden]":
        "The output projection (`lm_head`) is not of vocabulary rows and hidden columns: inference would print nothing but padding (GH-202).",
        ["a transposed output projection", "a vocabulary size that counts other tokens"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`"];
    now "F-LAYOUT-CONTRACT-003" "vector shape is not the architecture's":
        "A tensor of one dimension does not have the length that the architecture's table gives it.",
        ["a configuration that belongs to another model"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`"];
    now "F-LAYOUT-CONTRACT-004" "payload has another size than kernels expect":
        "A payload does not have rows times the blocks of a row times the bytes of a block.",
        ["a payload under the wrong type", "a bug of a writer: please report it"],
        ["compare type and shape with `apr tensors FILE --json`"];
    now "F-DATA-QUALITY-001" "too many zeros":
        "An embedding is at least 50 % zeros, or a weight at least 80 %: data that was never filled in (PMAT-234), or pruned.",
        ["an interrupted or shifted write of the source", "a pruned model"],
        ["`apr tensors FILE --stats` counts zeros", "get the model again, or go on if it was pruned: without `--strict` this is a warning"];
    now "F-DATA-QUALITY-002" "values that are not finite":
        "A tensor has NaN or infinite values, or a quantized one such scales; or a cast or quantization met or made one.",
        ["a training run that diverged", "a corrupt file", "a value too large for the type that was asked for"],
        ["`apr tensors FILE --stats` counts them", "choose a type with a larger range, bf16 rather than f16", "`--allow-nonfinite` casts them all the same"];
    now "F-DATA-QUALITY-003" "values say nothing":
        "A tensor's L2 norm is next to zero, or all its values are the same.",
        ["a placeholder that was never filled in", "a corrupt file"],
        ["`apr tensors FILE --hist NAME` shows the values"];
    now "F-DATA-QUALITY-004" "sampled tokens without an embedding":
        "The rows at 10, 50 or 90 % of an embedding are zero: data that begins at the wrong offset (PMAT-234).",
        ["an interrupted or shifted write of the source"],
        ["`apr tensors FILE --hist NAME` shows the values", "get the model again"];
    now "F-DATA-QUALITY-005" "too many tokens without an embedding":
        "At least a quarter of an embedding's rows are zero (PMAT-325).",
        ["a partly filled embedding", "a vocabulary that was padded by more than its own size"],
        ["`apr tensors FILE --hist NAME` shows the values", "get the model again"];
    now "E_RANGE" "statistics out of range":
        "A tensor's mean or deviation lies outside of what the architecture's table expects for its role, with its source.",
        ["a tensor under the wrong name", "a wrong scale in the conversion that made the source", "an expectation that is too narrow for this model"],
        ["`apr arch show ID` prints the expectation and its source", "`apr tensors FILE --stats` prints the figures", "`--relaxed` records it and goes on"];

    now "ROSETTA-NAN-001" "not-a-number appeared":
        "The result holds a NaN where the source has none.", ["a cast or a quantization of extreme values"],
        ["compare both with `apr tensors FILE --stats`"];
    now "ROSETTA-INF-001" "infinity appeared":
        "The result holds an infinity where the source has none.", ["a value too large for the target's type"],
        ["choose a type with a larger range, bf16 rather than f16"];
    now "ROSETTA-DIM-001" "shape differs":
        "A tensor's shape differs between source and result.", ["a transposition that was not undone"],
        ["compare both with `apr tensors FILE`"];
    now "ROSETTA-COUNT-001" "tensor count differs":
        "Source and result do not have the same tensors.", ["a tied or missing tensor"],
        ["compare both with `apr tensors FILE -q`"];
    now "ROSETTA-CRC-001" "bytes differ":
        "A payload that should be equal is not.", ["a bug: please report it"],
        ["compare both with `apr tensors FILE --json --sha256`"];
    now "ROSETTA-VOCAB-001" "vocabulary size differs":
        "Source and result have vocabularies of different sizes.", ["padding rows of the embedding"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-ARCH-001" "architecture differs":
        "Source and result name different architectures.", ["a wrong `--arch`"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-HIDDEN-001" "hidden size differs":
        "Source and result state different hidden sizes.", ["a configuration that does not fit the tensors"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-LAYER-001" "layer count differs":
        "Source and result state different numbers of layers.", ["a configuration that does not fit the tensors"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-QUANT-001" "quantization loss too large":
        "The largest difference between source and result is above the tolerance, or quantization lost as much of a tensor as it kept: its signal to noise is below 3 dB.",
        ["too few bits for this tensor", "values beyond the largest of its type"],
        ["choose a larger type for this tensor with `--tensor-type`"];
}

/// The entry of a code, in any case.
pub fn find(code: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_specification_is_explained() {
        for n in 1..=8 {
            assert!(find(&format!("e00{n}")).is_some(), "E00{n}");
        }
        let planned = ENTRIES.iter().filter(|entry| !entry.built).count();
        assert!(planned > 0 && find("E002").is_some_and(|entry| entry.built));
        for entry in ENTRIES {
            assert!(
                entry.meaning.ends_with('.') && !entry.causes.is_empty() && !entry.steps.is_empty(),
                "{}",
                entry.code
            );
        }
    }
}
