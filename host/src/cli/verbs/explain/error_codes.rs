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
    /// The usual causes.
    pub causes: &'static [&'static str],
    /// The steps to take, in order.
    pub steps: &'static [&'static str],
    /// True if the check that raises it is built.
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
        "No plugin recognizes the file, or it is not a model: an HTML page, a Git LFS pointer, plain text.",
        ["the download saved an error page", "a Git LFS pointer that was never replaced with the file", "the plugin for this format is not installed"],
        ["run `apr plugins list` to see which formats are available", "download the file again, or `git lfs pull`", "pass `--from FORMAT` if two formats recognize the file"];
    now "E002" "corrupted data":
        "The file violates the rules of its format: it is truncated, a length or an offset points outside \
         it, or a name occurs twice.",
        ["an interrupted download", "a disk error", "a bug in the program that wrote the file"],
        ["compare the file's size and SHA-256 with those of the original", "download the file again", "run `apr validate FILE --checksum` to check all of it"];
    now "E003" "unsupported version":
        "The file's format version is not supported by this reader.",
        ["the file is newer than the plugin", "the version field is corrupt"],
        ["run `apr plugins info FORMAT` to see what the plugin reads", "install a newer plugin"];
    now "E004" "checksum mismatch":
        "A checksum stored in the file differs from the one computed over its bytes.",
        ["the file changed after it was written", "an interrupted or faulty transfer"],
        ["copy or download the file again", "run `apr validate FILE --checksum` to locate the damage"];
    plan "E005" "decryption failed":
        "The passphrase is wrong, or an encrypted frame was changed.",
        ["a mistyped passphrase", "the file changed after it was encrypted"],
        ["try the passphrase again", "get a fresh copy of the file"];
    plan "E006" "signature invalid":
        "The signature in the file does not match its contents or the expected key.",
        ["the file changed after it was signed", "it was signed with another key"],
        ["do not use the file", "ask its publisher for the key and a fresh copy"];
    now "E007" "input or output failed":
        "The system could not read or write: the disk is full, permission was denied, the file already \
         exists or changed while it was being read.",
        ["the disk is full", "the folder is not writable", "the output exists and `--force` was not given"],
        ["read the system's own reason in the message", "run `apr convert IN OUT --plan` to see how many \
                                                         bytes the output needs"];
    now "E008" "limit exceeded":
        "The file claims more than a named limit allows, or opening it would use far more memory than its \
         header justifies.",
        ["a corrupt count or length", "a file made to exhaust memory"],
        ["treat the file as hostile unless you know its source", "report the file if it is genuine, since a limit may be too strict"];

    now "E_NOT_FOUND" "no such plugin file":
        "The specified plugin does not exist.",
        ["a mistyped path"],
        ["run `apr plugins path` to list the folders that are searched"];
    now "E_UNTRUSTED" "plugin not trusted":
        "The library, or a folder above it, belongs to another user or can be changed by others, or it \
         differs from the build pinned in the lock file. None of its code was run.",
        ["a world-writable folder", "a container whose files have a different owner"],
        ["`chmod go-w` the file and its folders, or install it with `apr plugins install FILE`", "in a container, list the folder in `plugins.trusted_folders` of the configuration"];
    now "E_NOT_A_PLUGIN" "not a plugin":
        "The file is not a library, or has no manifest of an apr plugin. None of its code was run.",
        ["another library with the same name", "a stripped or truncated file"],
        ["build it from the template that `apr plugins new NAME` writes"];
    now "E_TARGET" "plugin for another machine":
        "The library was built for another processor, operating system or C library. None of its code was run.",
        ["a download for another platform"],
        ["get the plugin for the target that `apr --version` prints"];
    now "E_PANIC_ABORT" "plugin would abort the program":
        "The plugin was built with `panic = \"abort\"`: its first bug would terminate apr without cleanup. \
         None of its code was run.",
        ["a release profile with `panic = \"abort\"`"],
        ["build the plugin with `panic = \"unwind\"`"];
    now "E_ABI_MAJOR" "plugin interface too old or too new":
        "The plugin uses another major version of the plugin interface. None of its code was run.",
        ["a plugin built for another release of apr"],
        ["install a build of the plugin for the interface that `apr --version` prints"];
    now "E_ABI_MINOR" "plugin needs a newer apr":
        "The plugin uses additions to the plugin interface that this apr lacks, or is a development build of another state. None of its code was run.",
        ["the plugin is newer than apr", "a plugin and an apr built from different sources before a release"],
        ["install a newer apr", "or build the plugin again from the same sources as apr"];
    now "E_DUPLICATE_ID" "provided twice":
        "Another plugin, found earlier in the search order, has the same id or provides the same format, compute backend or block type.",
        ["an installed copy next to a bundled one", "two folders with the same plugin"],
        ["run `apr plugins list` to see both with their paths", "run `apr plugins remove ID` to remove the installed one"];
    now "E_DLOPEN" "library could not be loaded":
        "The system's loader refused the library.",
        ["it needs another library, which is missing", "it was truncated while being copied"],
        ["run the command with `-v` to see the loader's own reason"];
    now "E_LAYOUT" "plugin built against another interface":
        "The types shared by apr and the plugin do not match, although the version numbers do.",
        ["a changed copy of the interface crate"],
        ["build the plugin against the published interface crate", "run the command with `-v` to see the differences"];
    now "E_INIT" "plugin failed to start":
        "The plugin's own constructor failed.",
        ["a bug in the plugin"],
        ["report it to the plugin's author with what `-v` prints"];
    now "E_CHANGED" "plugin changed while being loaded":
        "The loaded library's manifest differs from the one read from its file.",
        ["the file was replaced at that moment"],
        ["run the command again"];
    now "E_PLUGIN" "plugin failed":
        "A plugin panicked or broke its contract. The output was not touched.",
        ["a bug in the plugin"],
        ["report it to the plugin's author with the message", "run `apr plugins check FILE` for the conformance tests"];

    now "F-LAYOUT-CONTRACT-001" "shape does not match the architecture":
        "A weight does not have the shape given by the architecture's table and the model's configuration; \
         with dimensions in innermost-first order, the shape is reversed.",
        ["a transposed weight", "a configuration that belongs to another model"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`", "pass `--arch none` to convert the model as a bag of tensors"];
    now "F-LAYOUT-CONTRACT-002" "output shape is not [vocabulary, hidden]":
        "The output projection (`lm_head`) does not have vocabulary rows and hidden columns: inference \
         would print nothing but padding.",
        ["a transposed output projection", "a vocabulary size that counts different tokens"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`"];
    now "F-LAYOUT-CONTRACT-003" "vector shape does not match the architecture":
        "A one-dimensional tensor does not have the length given by the architecture's table.",
        ["a configuration that belongs to another model"],
        ["compare `apr tensors FILE` with the configuration in `apr inspect FILE`"];
    now "F-LAYOUT-CONTRACT-004" "payload size does not match its type and shape":
        "A payload's size is not rows times blocks per row times bytes per block.",
        ["a payload with the wrong type", "a bug in a writer: please report it"],
        ["compare type and shape with `apr tensors FILE --json`"];
    now "F-DATA-QUALITY-001" "too many zeros":
        "An embedding is at least 50 % zeros, or a weight at least 80 %: data that was never filled in, or pruned weights.",
        ["an interrupted or shifted write of the source", "a pruned model"],
        ["run `apr tensors FILE --stats` to count zeros", "get the model again; if it was pruned, remove \
                                                           `--strict` to make this a warning"];
    now "F-DATA-QUALITY-002" "non-finite values":
        "A tensor has NaN or infinite values (or scales, if quantized), or a cast or quantization \
         encountered or produced one.",
        ["a training run that diverged", "a corrupt file", "a value too large for the requested type"],
        ["run `apr tensors FILE --stats` to count them", "choose a type with a larger range, bf16 rather than f16", "pass `--allow-nonfinite` to cast them anyway"];
    now "F-DATA-QUALITY-003" "values carry no information":
        "A tensor's L2 norm is almost zero, or all its values are the same.",
        ["a placeholder that was never filled in", "a corrupt file"],
        ["run `apr tensors FILE --hist NAME` to see the values"];
    now "F-DATA-QUALITY-004" "sampled tokens without an embedding":
        "The rows at 10, 50 or 90 % of an embedding are zero: its data starts at the wrong offset.",
        ["an interrupted or shifted write of the source"],
        ["run `apr tensors FILE --hist NAME` to see the values", "get the model again"];
    now "F-DATA-QUALITY-005" "too many tokens without an embedding":
        "At least a quarter of an embedding's rows are zero.",
        ["a partly filled embedding", "a vocabulary padded by more than its own size"],
        ["run `apr tensors FILE --hist NAME` to see the values", "get the model again"];
    now "E_RANGE" "statistics out of range":
        "A tensor's mean or standard deviation is outside the range given by the architecture's table for \
         its role.",
        ["a tensor with the wrong name", "a wrong scale in the conversion that produced the source", "an expectation that is too narrow for this model"],
        ["run `apr arch show ID` to see the expected range and its source", "run `apr tensors FILE --stats` to see the statistics", "pass `--relaxed` to record it and continue"];

    now "ROSETTA-NAN-001" "NaN appeared":
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
        "A payload that should be unchanged is not.", ["a bug: please report it"],
        ["compare both with `apr tensors FILE --json --sha256`"];
    now "ROSETTA-VOCAB-001" "tokenizer differs":
        "Source and result have vocabularies of different sizes, or tokenizers that encode a text \
         differently.",
        ["padding rows of the embedding", "a modified tokenizer file"],
        ["compare both with `apr tokenizer FILE`, and with `apr diff`"];
    now "ROSETTA-ARCH-001" "architecture differs":
        "Source and result state different architectures.", ["a wrong `--arch`"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-HIDDEN-001" "hidden size differs":
        "Source and result state different hidden sizes.", ["a configuration that does not match the tensors"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-LAYER-001" "layer count differs":
        "Source and result state different numbers of layers.", ["a configuration that does not match the tensors"],
        ["compare both with `apr inspect FILE`"];
    now "ROSETTA-GRAPH-001" "graph differs":
        "Source and result have the same format, whose files describe what a model computes, but describe different computations: another operator, attribute, input, output or operator set. The message has the first line that differs.",
        ["another export of the same weights", "a graph that an optimizer changed, or a graph left out because tensors were renamed"],
        ["compare both with `apr inspect FILE --graph`, and with `apr diff`"];
    now "ROSETTA-QUANT-001" "quantization loss too large":
        "The largest difference between source and result exceeds the tolerance, or quantization lost as \
         much of a tensor as it kept: its signal-to-noise ratio is below 3 dB.",
        ["too few bits for this tensor", "values outside the range of the type"],
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
