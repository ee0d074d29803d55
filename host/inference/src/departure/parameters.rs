//! Parameters in which the same operation of two models differs, each with the reference's operation as it would be with the
//! suspect's value: if that gives what the suspect gives, the parameter explains the difference.

use super::angles;
use super::digits::short;
use apr_sdk::{Activation, Attention, Operation, Rope, WeightPart};

/// A parameter with two values.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    /// What it looks like, in words.
    pub(super) words: String,
    /// The reference's operation with the suspect's value.
    pub(super) hybrid: Operation,
}

/// Numbers that come of one through a file's F32 are as good as the same.
const NEAR: f32 = 1e-5;

fn same(a: f32, b: f32) -> bool {
    a == b || (a - b).abs() <= NEAR * a.abs().max(b.abs())
}

/// Collects differences of one operation.
struct Differences<'a> {
    reference: &'a Operation,
    all: Vec<Difference>,
}

impl Differences<'_> {
    /// Adds one, with what makes the reference's operation the suspect's in it.
    fn push(&mut self, words: String, change: impl FnOnce(&mut Operation)) {
        let mut hybrid = self.reference.clone();
        change(&mut hybrid);
        self.all.push(Difference { words, hybrid });
    }

    /// Adds a number that differs.
    fn number(&mut self, what: &str, values: [f32; 2], change: impl FnOnce(&mut Operation)) {
        let [suspect, reference] = values;
        if !same(suspect, reference) {
            let ratio = if reference != 0.0 {
                format!(" ({} times)", short(suspect / reference))
            } else {
                String::new()
            };
            self.push(format!("{what} is {}, not {}{ratio}", short(suspect), short(reference)), change);
        }
    }
}

/// Parameters in which two operations of one kind differ.
pub(super) fn differences(suspect: &Operation, reference: &Operation) -> Vec<Difference> {
    let mut found = Differences { reference, all: Vec::new() };
    match (suspect, reference) {
        (Operation::Embed(a), Operation::Embed(b)) => {
            found.number("the scale of the embeddings", [a.scale, b.scale], |hybrid| {
                if let Operation::Embed(hybrid) = hybrid {
                    hybrid.scale = a.scale;
                }
            });
            if a.offset != b.offset {
                let words = format!("rows of the table are shifted by {}, not {}", a.offset, b.offset);
                found.push(words, |hybrid| {
                    if let Operation::Embed(hybrid) = hybrid {
                        hybrid.offset = a.offset;
                    }
                });
            }
        }
        (Operation::Norm(a), Operation::Norm(b)) => {
            found.number("ε of the norm", [a.epsilon, b.epsilon], |hybrid| {
                if let Operation::Norm(hybrid) = hybrid {
                    hybrid.epsilon = a.epsilon;
                }
            });
            if a.kind != b.kind {
                let words = format!("the norm is of kind {}, not {}", a.kind.name(), b.kind.name());
                found.push(words, |hybrid| {
                    if let Operation::Norm(hybrid) = hybrid {
                        hybrid.kind = a.kind;
                    }
                });
            }
            if a.heads != b.heads {
                let words = format!("the norm spans {} parts of a row, not {}", a.heads, b.heads);
                found.push(words, |hybrid| {
                    if let Operation::Norm(hybrid) = hybrid {
                        hybrid.heads = a.heads;
                    }
                });
            }
            if a.gain.is_none() && b.gain.is_some() {
                found.push("the norm has no gain".to_owned(), |hybrid| {
                    if let Operation::Norm(hybrid) = hybrid {
                        hybrid.gain = None;
                    }
                });
            }
            if a.bias.is_none() && b.bias.is_some() {
                found.push("the bias of the norm is missing".to_owned(), |hybrid| {
                    if let Operation::Norm(hybrid) = hybrid {
                        hybrid.bias = None;
                    }
                });
            }
        }
        (Operation::Linear(a), Operation::Linear(b)) => {
            found.number("the scale of the product", [a.scale, b.scale], |hybrid| {
                if let Operation::Linear(hybrid) = hybrid {
                    hybrid.scale = a.scale;
                }
            });
            biases(&mut found, &a.parts, &b.parts);
        }
        (Operation::ExpertLinear(a), Operation::ExpertLinear(b)) => biases(&mut found, &a.parts, &b.parts),
        (Operation::Activate(a), Operation::Activate(b)) => {
            if a.kind != b.kind {
                let words = format!("the activation is {}, not {}", function(a.kind), function(b.kind));
                found.push(words, |hybrid| {
                    if let Operation::Activate(hybrid) = hybrid {
                        hybrid.kind = a.kind;
                    }
                });
            }
            found.number("the slope of the activation", [a.alpha, b.alpha], |hybrid| {
                if let Operation::Activate(hybrid) = hybrid {
                    hybrid.alpha = a.alpha;
                }
            });
            found.number("the bound of the activation", [a.limit, b.limit], |hybrid| {
                if let Operation::Activate(hybrid) = hybrid {
                    hybrid.limit = a.limit;
                }
            });
            if a.up.is_none() && b.up.is_some() {
                found.push("the gate multiplies nothing".to_owned(), |hybrid| {
                    if let Operation::Activate(hybrid) = hybrid {
                        hybrid.up = None;
                    }
                });
            }
        }
        (Operation::Rope(a), Operation::Rope(b)) => rotations(&mut found, a, b),
        (Operation::Attention(a), Operation::Attention(b)) => attentions(&mut found, a, b),
        (Operation::Route(a), Operation::Route(b)) => {
            found.number("the scale of the experts' weights", [a.scale, b.scale], |hybrid| {
                if let Operation::Route(hybrid) = hybrid {
                    hybrid.scale = a.scale;
                }
            });
            if a.score != b.score || a.normalize != b.normalize {
                let words = format!(
                    "experts are weighted by {}{}, not by {}{}",
                    a.score.name(),
                    if a.normalize { ", normalized" } else { "" },
                    b.score.name(),
                    if b.normalize { ", normalized" } else { "" }
                );
                found.push(words, |hybrid| {
                    if let Operation::Route(hybrid) = hybrid {
                        (hybrid.score, hybrid.normalize) = (a.score, a.normalize);
                    }
                });
            }
            if a.bias.is_none() && b.bias.is_some() {
                found.push("the bias of the router is missing".to_owned(), |hybrid| {
                    if let Operation::Route(hybrid) = hybrid {
                        hybrid.bias = None;
                    }
                });
            }
        }
        (Operation::Unary(a), Operation::Unary(b)) => {
            for (what, values, first) in
                [("the first parameter", [a.a, b.a], true), ("the second parameter", [a.b, b.b], false)]
            {
                let what = format!("{what} of {}", b.kind.name());
                found.number(&what, values, |hybrid| {
                    if let Operation::Unary(hybrid) = hybrid {
                        *(if first { &mut hybrid.a } else { &mut hybrid.b }) = values[0];
                    }
                });
            }
        }
        _ => {}
    }
    found.all
}

/// Biases that only the reference has.
fn biases(found: &mut Differences<'_>, suspect: &[WeightPart], reference: &[WeightPart]) {
    if suspect.len() != reference.len() {
        return;
    }
    for (number, (a, b)) in suspect.iter().zip(reference).enumerate() {
        if a.bias.is_some() || b.bias.is_none() {
            continue;
        }
        found.push("the bias is missing".to_owned(), |hybrid| match hybrid {
            Operation::Linear(hybrid) => hybrid.parts[number].bias = None,
            Operation::ExpertLinear(hybrid) => hybrid.parts[number].bias = None,
            _ => {}
        });
    }
}

fn rotations(found: &mut Differences<'_>, a: &Rope, b: &Rope) {
    if a.style != b.style {
        let words = format!("RoPE rotates pairs in the style `{}`, not `{}`", a.style.name(), b.style.name());
        found.push(words, |hybrid| {
            if let Operation::Rope(hybrid) = hybrid {
                hybrid.style = a.style;
            }
        });
    }
    if let Some(words) = angles::difference(&a.frequencies, &b.frequencies) {
        found.push(words, |hybrid| {
            if let Operation::Rope(hybrid) = hybrid {
                hybrid.frequencies.clone_from(&a.frequencies);
            }
        });
    }
    found.number("the magnitude of the rotation", [a.magnitude, b.magnitude], |hybrid| {
        if let Operation::Rope(hybrid) = hybrid {
            hybrid.magnitude = a.magnitude;
        }
    });
}

fn attentions(found: &mut Differences<'_>, a: &Attention, b: &Attention) {
    found.number("the scale of the scores", [a.scale, b.scale], |hybrid| {
        if let Operation::Attention(hybrid) = hybrid {
            hybrid.scale = a.scale;
        }
    });
    if !same(a.soft_cap, b.soft_cap) {
        let words = match (a.soft_cap == 0.0, b.soft_cap == 0.0) {
            (true, _) => format!("the soft cap of the scores, {}, is missing", short(b.soft_cap)),
            (_, true) => format!("the scores have a soft cap of {}", short(a.soft_cap)),
            _ => format!("the soft cap of the scores is {}, not {}", short(a.soft_cap), short(b.soft_cap)),
        };
        found.push(words, |hybrid| {
            if let Operation::Attention(hybrid) = hybrid {
                hybrid.soft_cap = a.soft_cap;
            }
        });
    }
    if a.mask != b.mask || a.window != b.window {
        let of = |attention: &Attention| match attention.window {
            0 => attention.mask.name(),
            window => format!("{} of {window}", attention.mask.name()),
        };
        found.push(format!("the mask is {}, not {}", of(a), of(b)), |hybrid| {
            if let Operation::Attention(hybrid) = hybrid {
                (hybrid.mask, hybrid.window) = (a.mask, a.window);
            }
        });
    }
    if a.sinks.is_none() && b.sinks.is_some() {
        found.push("the attention sinks are missing".to_owned(), |hybrid| {
            if let Operation::Attention(hybrid) = hybrid {
                hybrid.sinks = None;
            }
        });
    }
    let slopes =
        a.slopes.len() == b.slopes.len() && a.slopes.iter().zip(&b.slopes).all(|(a, b)| same(*a, *b));
    if !slopes {
        let words = if a.slopes.is_empty() { "ALiBi is missing" } else { "the slopes of ALiBi are others" };
        found.push(words.to_owned(), |hybrid| {
            if let Operation::Attention(hybrid) = hybrid {
                hybrid.slopes.clone_from(&a.slopes);
            }
        });
    }
}

/// The name of an activation function as configurations have it.
fn function(kind: Activation) -> String {
    match kind {
        Activation::SILU => "SiLU".to_owned(),
        Activation::GELU_ERF => "GELU".to_owned(),
        Activation::GELU_TANH => "GELU approximated by tanh".to_owned(),
        Activation::GELU_QUICK => "quick GELU".to_owned(),
        Activation::RELU => "ReLU".to_owned(),
        Activation::RELU_SQUARED => "squared ReLU".to_owned(),
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Mask, Norm, NormKind, Slice};

    fn slice() -> Slice {
        Slice { value: 0, first: 0, width: 4 }
    }

    fn norm(epsilon: f32) -> Operation {
        Norm { x: slice(), out: slice(), kind: NormKind::RMS, gain: Some(0), bias: None, epsilon, heads: 1 }
            .into()
    }

    #[test]
    fn a_number_that_differs_is_named_and_planted() {
        let found = differences(&norm(1e-3), &norm(1e-6));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].words, "ε of the norm is 0.001, not 0.000001 (1000 times)");
        assert_eq!(found[0].hybrid, norm(1e-3));
        assert!(differences(&norm(1e-6), &norm(1.000_001e-6)).is_empty());
    }

    #[test]
    fn a_missing_soft_cap_and_another_mask_are_two_differences() {
        let attention = |soft_cap, mask, window| {
            Operation::from(Attention {
                state: 0,
                query: slice(),
                out: slice(),
                heads: 1,
                scale: 0.5,
                mask,
                window,
                soft_cap,
                sinks: None,
                slopes: Vec::new(),
                value_first: 0,
            })
        };
        let found = differences(&attention(0.0, Mask::CAUSAL, 0), &attention(50.0, Mask::WINDOW, 8));
        let words: Vec<&str> = found.iter().map(|one| one.words.as_str()).collect();
        assert_eq!(
            words,
            ["the soft cap of the scores, 50, is missing", "the mask is causal, not window of 8"]
        );
    }
}
