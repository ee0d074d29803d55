//! Follows one pickle as far as possible, tracking just enough of the stack to know which name a call calls.

use super::names::{Verdict, judge};
use crate::pickle::decoder::{Decoder, Step};
use crate::pickle::text as unescape;
use apr_sdk::{Cursor, escape};
use std::collections::HashMap;
use std::rc::Rc;

/// Calls of one name that are listed.
const CALLS: usize = 64;

/// Different names that are kept of one pickle.
const NAMES: usize = 4096;

/// What a value on the stack or in the memo costs.
const COST: u64 = 48;

/// What was seen of a pickle.
#[derive(Debug)]
pub struct Trace {
    /// The record or member it is in.
    pub place: String,
    /// Where it begins in that.
    pub start: u64,
    /// How many opcodes it has.
    pub opcodes: u64,
    /// The first of them: offset, name, and a short form of the argument.
    pub steps: Vec<(u64, &'static str, String)>,
    /// The names, in the order in which they come.
    pub names: Vec<Name>,
    /// Why it ends before STOP.
    pub problem: Option<String>,
    /// Where it ends.
    pub end: u64,
}

/// A global that a pickle imports.
#[derive(Debug)]
pub struct Name {
    /// `module.name`.
    pub name: String,
    /// How it is judged.
    pub verdict: Verdict,
    /// Offset and opcode of its first import.
    pub first: (u64, &'static str),
    /// How often it is imported.
    pub n_imports: u64,
    /// How often it, or what it made, is called or given a state.
    pub n_calls: u64,
    /// The first of those.
    pub calls: Vec<(u64, &'static str)>,
}

#[derive(Clone)]
enum Value {
    Other,
    Text(Rc<str>),
    Named(usize),
}

struct Tracer {
    trace: Trace,
    known: HashMap<String, usize>,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<i64, Value>,
    /// Opcodes that may still be kept.
    steps: usize,
}

impl Trace {
    /// The worst that it names.
    pub fn verdict(&self) -> Verdict {
        self.names.iter().map(|name| name.verdict).max().unwrap_or(Verdict::Known)
    }

    /// Traces the pickle at the cursor, and keeps its first `steps` opcodes.
    pub fn of(cursor: &mut Cursor<'_>, place: &str, steps: usize) -> Trace {
        let start = cursor.position();
        let trace = Trace {
            place: place.to_owned(),
            start,
            opcodes: 0,
            steps: Vec::new(),
            names: Vec::new(),
            problem: None,
            end: start,
        };
        let (known, memo) = (HashMap::new(), HashMap::new());
        let mut tracer = Tracer { trace, known, stack: Vec::new(), marks: Vec::new(), memo, steps };
        let mut decoder = Decoder::new(cursor);
        loop {
            match decoder.step() {
                Ok(step) => {
                    tracer.step(&step, &decoder);
                    if step.opcode.code == b'.' {
                        break;
                    }
                    let cost = decoder.cursor().limits().budget.charge(COST);
                    if let Err(error) = cost {
                        tracer.trace.problem = Some(error.message().to_owned());
                        break;
                    }
                }
                Err(error) => {
                    let at = error.offset().unwrap_or_default();
                    tracer.trace.problem = Some(format!("at {at}: {}", error.message()));
                    break;
                }
            }
        }
        tracer.trace.end = decoder.cursor().position();
        tracer.trace
    }
}

impl Tracer {
    fn step(&mut self, step: &Step, decoder: &Decoder<'_, '_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.trace.opcodes += 1;
        let code = step.opcode.code;
        if self.trace.steps.len() < self.steps {
            let what = argument(step, decoder);
            self.trace.steps.push((step.at, step.opcode.name, what));
        }
        match code {
            b'(' => self.marks.push(self.stack.len()),
            b'0' => self.pop(),
            b'1' => drop(self.above_mark()),
            b'2' => {
                let top = self.stack.last().cloned();
                self.stack.extend(top);
            }
            b'S' | b'T' | b'U' | b'V' | b'X' | 0x8c | 0x8d => {
                let line = match code {
                    b'S' => unescape::quoted(&decoder.bytes).map(|bytes| text(&bytes)),
                    b'V' => unescape::raw_unicode_escape(&decoder.bytes),
                    _ => Ok(text(&decoder.bytes)),
                };
                self.stack.push(match line {
                    Ok(line) => Value::Text(line.chars().take(400).collect::<String>().into()),
                    Err(_) => Value::Other,
                });
            }
            b'c' => {
                let named = self.import(step, &text(&decoder.bytes), &text(&decoder.second));
                self.stack.push(named);
            }
            b'i' => {
                self.above_mark();
                let named = self.import(step, &text(&decoder.bytes), &text(&decoder.second));
                self.call(step, &named);
                self.stack.push(named);
            }
            0x93 => {
                let (name, module) = (self.stack.pop(), self.stack.pop());
                let named = match (module, name) {
                    (Some(Value::Text(module)), Some(Value::Text(name))) => self.import(step, &module, &name),
                    // A name that is computed hides what it is.
                    _ => self.import(step, "builtins", "(a computed name)"),
                };
                self.stack.push(named);
            }
            0x82..=0x84 => {
                let named = self.import(step, "copyreg", &format!("(extension {})", step.number));
                self.stack.push(named);
            }
            b'R' | 0x81 => {
                self.stack.pop();
                self.called(step);
            }
            0x92 => {
                self.stack.pop();
                self.stack.pop();
                self.called(step);
            }
            b'o' => {
                let class = self.above_mark().into_iter().next().unwrap_or(Value::Other);
                self.call(step, &class);
                self.stack.push(class);
            }
            b'b' => {
                self.stack.pop();
                let target = self.stack.last().cloned();
                target.iter().for_each(|target| self.call(step, target));
            }
            b'h' | b'j' => self.get(step.number),
            b'g' => {
                let place = self.place(&decoder.bytes);
                self.get(place);
            }
            b'q' | b'r' => self.put(step.number),
            b'p' => {
                let place = self.place(&decoder.bytes);
                self.put(place);
            }
            0x94 => self.put(i64::try_from(self.memo.len()).unwrap_or(-1)),
            b'a' => drop(self.stack.pop()),
            b's' => self.drop_top(2),
            b'e' | b'u' | 0x90 => drop(self.above_mark()),
            b't' | b'l' | b'd' | 0x91 => {
                self.above_mark();
                self.stack.push(Value::Other);
            }
            0x85 => self.replace(1),
            0x86 => self.replace(2),
            0x87 => self.replace(3),
            b'Q' => self.replace(1),
            0x80 | 0x95 | 0x98 | b'.' => {}
            _ => self.stack.push(Value::Other),
        }
    }

    /// POP takes the mark, where that is on top.
    fn pop(&mut self) {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
        } else {
            self.stack.pop();
        }
    }

    /// A memo place as Python's `int` reads it, underscores included; what else there may be makes the trace useless.
    fn place(&mut self, line: &[u8]) -> i64 {
        let digits: Vec<u8> = line.iter().copied().filter(|byte| *byte != b'_').collect();
        let place = std::str::from_utf8(&digits).ok().and_then(|text| text.trim().parse().ok());
        place.unwrap_or_else(|| {
            let shown = escape(&String::from_utf8_lossy(line), 40);
            self.trace.problem = Some(format!("`{shown}` is not a memo index"));
            -1
        })
    }

    fn drop_top(&mut self, n: usize) {
        self.stack.truncate(self.stack.len().saturating_sub(n));
    }

    fn replace(&mut self, n: usize) {
        self.drop_top(n);
        self.stack.push(Value::Other);
    }

    fn above_mark(&mut self) -> Vec<Value> {
        let mark = self.marks.pop().unwrap_or(0).min(self.stack.len());
        self.stack.split_off(mark)
    }

    fn get(&mut self, place: i64) {
        let value = self.memo.get(&place).cloned();
        self.stack.push(value.unwrap_or(Value::Other));
    }

    fn put(&mut self, place: i64) {
        let value = self.stack.last().cloned().unwrap_or(Value::Other);
        self.memo.insert(place, value);
    }

    fn import(&mut self, step: &Step, module: &str, name: &str) -> Value {
        let full = escape(&format!("{module}.{name}"), 400);
        if let Some(&n) = self.known.get(&full) {
            self.trace.names[n].n_imports += 1;
            return Value::Named(n);
        }
        let verdict = judge(module, name);
        if self.trace.names.len() >= NAMES {
            // What comes behind so many names is worse than they.
            if let Some(last) = self.trace.names.last_mut() {
                last.verdict = last.verdict.max(verdict).max(Verdict::Unknown);
            }
            return Value::Other;
        }
        let n = self.trace.names.len();
        self.known.insert(full.clone(), n);
        self.trace.names.push(Name {
            name: full,
            verdict,
            first: (step.at, step.opcode.name),
            n_imports: 1,
            n_calls: 0,
            calls: Vec::new(),
        });
        Value::Named(n)
    }

    /// Calls what is on top, and leaves what it makes.
    fn called(&mut self, step: &Step) {
        let callee = self.stack.pop().unwrap_or(Value::Other);
        self.call(step, &callee);
        self.stack.push(callee);
    }

    fn call(&mut self, step: &Step, callee: &Value) {
        let Value::Named(n) = callee else { return };
        if let Some(name) = self.trace.names.get_mut(*n) {
            name.n_calls += 1;
            if name.calls.len() < CALLS {
                name.calls.push((step.at, step.opcode.name));
            }
        }
    }
}

/// An opcode's argument, short.
fn argument(step: &Step, decoder: &Decoder<'_, '_>) -> String {
    use crate::pickle::opcodes::Argument;
    let text = |bytes: &[u8]| escape(&String::from_utf8_lossy(&bytes[..bytes.len().min(320)]), 80);
    match step.opcode.argument {
        Argument::None => String::new(),
        Argument::Unsigned(_) | Argument::Signed4 => step.number.to_string(),
        Argument::Float8 => step.float.to_string(),
        Argument::TwoLines => format!("{}.{}", text(&decoder.bytes), text(&decoder.second)),
        Argument::Line | Argument::Counted(_) | Argument::CountedSigned4 => text(&decoder.bytes),
    }
}
