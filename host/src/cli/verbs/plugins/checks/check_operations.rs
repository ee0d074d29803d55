//! The checks of what a compute backend computes: those of `apr kernels check`, on each of its usable devices.

use super::check_line::Line;
use crate::cli::context::Context;
use crate::cli::verbs::kernels::blocks::Packing;
use crate::cli::verbs::kernels::verdicts::{Counts, Row};
use apr_engine::crew::Crew;
use apr_host::running::devices;
use apr_host::threads::Team;
use apr_inference::check::{Case, cases};
use apr_sdk::{Device, Kernel, Options, Result, Workers, escape};
use std::sync::Arc;

/// The name of the check where no operation was run.
const OPERATIONS: &str = "operations";

/// Findings of one operation that are listed.
const LISTED: usize = 3;

/// Checks every operation of the backend `id`; `say` hears of each as it starts and as it ends.
///
/// # Errors
/// Any error from `say`.
pub fn check_operations(
    id: &str,
    kernel: &dyn Kernel,
    context: &Context,
    say: &dyn Fn(&Line) -> Result<()>,
) -> Result<()> {
    // Blocks of weights are packed by the quantizers that apr has, whatever else the plugin is.
    let host = context.host();
    let cases = match cases(&Packing::of(&host.registry)) {
        Ok(cases) => cases,
        Err(error) => return say(&Line::new(id, OPERATIONS, "skipped", error.to_string())),
    };
    let team = Team::new(host.threads().width(), Arc::clone(&host.cancel));
    // That every usable device opens is a check of its own.
    let listed = devices(kernel).unwrap_or_default();
    let mut is_any = false;
    for (number, info) in (0..).zip(&listed) {
        if info.unusable.is_some() {
            continue;
        }
        let Ok(device) = kernel.open(number, &Options::new()) else { continue };
        is_any = true;
        let whose = format!("{id} device {number}");
        for operation in operations(&cases) {
            let cases: Vec<&Case> = cases.iter().filter(|case| case.operation == operation).collect();
            check_operation(&whose, operation, device.as_ref(), &team, &cases, say)?;
        }
    }
    if is_any {
        return Ok(());
    }
    say(&Line::new(id, OPERATIONS, "skipped", "the backend has no usable device on this machine".to_owned()))
}

/// The operations of cases, each once.
fn operations(cases: &[Case]) -> Vec<&'static str> {
    let mut operations = Vec::new();
    for case in cases {
        if !operations.contains(&case.operation) {
            operations.push(case.operation);
        }
    }
    operations
}

/// Runs the cases of one operation on a device.
fn check_operation(
    whose: &str,
    operation: &str,
    device: &dyn Device,
    workers: &dyn Workers,
    cases: &[&Case],
    say: &dyn Fn(&Line) -> Result<()>,
) -> Result<()> {
    say(&Line::new(whose, operation, "started", String::new()))?;
    let rows: Vec<Row> = cases.iter().map(|case| Row::of(device, workers, case)).collect();
    let counts = Counts::of(&rows);
    let result = match (counts.bad(), counts.supported()) {
        (0, 0) => "skipped",
        (0, _) => "passed",
        _ => "failed",
    };
    let bad: Vec<&Row> = rows.iter().filter(|row| row.is_bad()).collect();
    let listed = bad.iter().take(LISTED).map(|row| {
        let form = if row.form.is_empty() { String::new() } else { format!(" ({})", row.form) };
        let share = row.share.map_or(String::new(), |share| format!(", {share:.3} of the bound"));
        format!("; {}{form}: {}{share}", row.dtype, row.in_words())
    });
    let unsupported = rows.iter().find(|_| counts.supported() == 0).and_then(|row| row.reason.as_deref());
    let why = unsupported.map_or(String::new(), |why| format!(": {}", escape(why, 200)));
    let detail = format!("{counts}{why}{}", listed.collect::<String>());
    say(&Line::new(whose, operation, result, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_host::threads::Team;
    use apr_inference::check::Input;
    use apr_sdk::{
        Batch, DType, Error, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Program, Rows, RowsSink,
        Session, SessionLimits, StateCommand, StepSink, TimingSink, Weight,
    };
    use std::cell::RefCell;

    /// A device whose values are all the same, or which has no operation.
    struct Constant(Option<f32>);

    impl Device for Constant {
        fn memory(&self) -> Result<Memory> {
            Ok(Memory::default())
        }

        fn image(&self, _: &MatrixSpec) -> Result<ImageSpec> {
            Err(Error::unsupported("no matrices"))
        }

        fn prepare(&self, _: &MatrixSpec, _: &dyn Rows, _: &mut dyn ImageSink) -> Result<Weight> {
            Err(Error::unsupported("no matrices"))
        }

        fn adopt(&self, _: &MatrixSpec, _: Box<dyn ImageMemory>) -> Result<Weight> {
            Err(Error::unsupported("no matrices"))
        }

        fn export(&self, _: Weight, _: &mut dyn RowsSink) -> Result<()> {
            Err(Error::unsupported("no matrices"))
        }

        fn compile(&self, _: &[u8], _: &[Weight], _: &SessionLimits) -> Result<Box<dyn Session>> {
            match self.0 {
                Some(value) => Ok(Box::new(Values(value))),
                None => Err(Error::unsupported("no operations")),
            }
        }
    }

    struct Values(f32);

    impl Session for Values {
        fn step(&mut self, _: &Batch<'_>, _: &dyn Workers, _: &mut dyn StepSink) -> Result<()> {
            Ok(())
        }

        fn state(&mut self, _: &StateCommand) -> Result<()> {
            Ok(())
        }

        fn read(&mut self, _: u32, out: &mut [f32]) -> Result<()> {
            out.fill(self.0);
            Ok(())
        }

        fn timings(&self, _: &mut dyn TimingSink) -> Result<()> {
            Ok(())
        }
    }

    /// A case of one value, which should be this one.
    fn case(expected: f64) -> Case {
        Case {
            operation: "unary",
            dtype: DType::F32,
            form: "exp".to_owned(),
            program: Program::default(),
            weights: Vec::new(),
            inputs: vec![Input { ids: vec![0], position: 0, rows: Vec::new() }],
            output: Some(0),
            expected: vec![expected],
            bounds: vec![0.5],
        }
    }

    /// The line about a device.
    fn line(value: Option<f32>) -> Line {
        let lines = RefCell::new(Vec::new());
        let team = Team::new(1, Arc::default());
        let cases = [&case(1.0), &case(1.25)];
        check_operation("x device 0", "unary", &Constant(value), &team, &cases, &|line| {
            lines.borrow_mut().push(line.clone());
            Ok(())
        })
        .unwrap();
        let lines = lines.into_inner();
        assert_eq!((lines.len(), lines[0].result.as_str()), (2, "started"));
        lines[1].clone()
    }

    #[test]
    fn wrong_values_fail_and_what_is_missing_is_no_failure() {
        let Line { result, detail, .. } = line(Some(1.0));
        assert_eq!(
            (result.as_str(), detail.as_str()),
            ("passed", "2 correct, 0 wrong, 0 failed, 0 unsupported")
        );
        let Line { result, detail, .. } = line(Some(0.625));
        assert_eq!(result, "failed");
        assert!(
            detail.starts_with("1 correct, 1 wrong, 0 failed, 0 unsupported; F32 (exp): wrong, 1.250"),
            "{detail}"
        );
        let Line { result, detail, .. } = line(None);
        assert_eq!(result, "skipped");
        assert_eq!(detail, "0 correct, 0 wrong, 0 failed, 2 unsupported: no operations");
    }
}
