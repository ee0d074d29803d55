//! The promises every compute backend makes: each operation and whole programs against an interpreter in double
//! precision, and what must be refused.
//!
//! A backend's tests are a [`Subject`] and one line, [`kernel_conformance!`](crate::kernel_conformance); for tests of
//! one's own there are programs ([`programs::decoder`]), weights ([`Floats`]), threads ([`Threads`]) and [`judge`].

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the programs here are small, and rounding to f32 is what is meant"
)]

mod interpreter;
mod judge;
pub mod operations;
pub mod order;
pub mod programs;
pub mod rejects;
mod setup;
mod subject;

pub use interpreter::Interpreter;
pub use judge::{difference, judge};
pub use setup::{Floats, Given, HeapSink, Plain, Threads, compile, prepare, step};
pub use subject::Subject;

use crate::Verdict;
use apr_sdk::{Error, Result};

/// A check of a backend: `Ok`, or how the promise is broken.
pub type Check = fn(&Subject) -> Result<()>;

/// The checks as a list, each by its function's name.
macro_rules! checks {
    ($($module:ident: $($name:ident)*;)*) => {
        /// Every check, by the name that [`kernel_conformance!`](crate::kernel_conformance) gives the test.
        pub const CHECKS: &[(&str, Check)] = &[$($((stringify!($name), $module::$name as Check),)*)*];
    };
}

checks! {
    operations: embed norm linear_and_head_linear activate rope attention_with_every_mask
        attention_over_every_type_and_shape experts binary_and_unary pool measure;
    order: operations_in_any_order_compute_the_same;
    programs: a_decoder_computes_what_it_should neither_workers_nor_batches_change_the_result
        states_are_copied_trimmed_kept_and_brought_back tokens_values_and_times_are_given;
    rejects: programs_that_do_not_hold_together_are_refused keys_of_another_shape_are_refused declarations_come_once_and_first
        weights_and_bytes_that_are_none_are_refused batches_beyond_the_limits_are_refused_and_change_nothing
        rows_that_are_no_numbers_give_logits_that_are_none parameters_that_are_no_numbers_give_values_that_are_none
        an_error_of_the_sink_ends_the_step commands_to_sequences_change_no_other values_are_read_whole_or_not_at_all
        logits_are_given_for_outputs_even_if_rows_are_pooled what_is_supported_is_said_with_reasons;
}

/// Runs the check `name` on a backend. What [`kernel_conformance!`](crate::kernel_conformance) makes tests of.
///
/// # Errors
/// How the promise is broken; NotFound if there is no such check, or one that the subject skips; InvalidArgument for
/// a subject without devices.
pub fn check_kernel(name: &str, subject: Option<Subject>) -> Result<Verdict> {
    let (_, check) = find(name)?;
    let Some(subject) = subject else { return Verdict::skipped("there is no such device") };
    for (skipped, _) in &subject.skips {
        find(skipped)?;
    }
    if let Some((_, why)) = subject.skips.iter().find(|(skipped, _)| *skipped == name) {
        return Verdict::skipped(why.clone());
    }
    if subject.devices.is_empty() || subject.workers.is_empty() {
        return Err(Error::invalid_argument("a subject requires a device and a number of workers"));
    }
    check(&subject)?;
    Verdict::passed(format!("{} devices", subject.devices.len()))
}

fn find(name: &str) -> Result<&'static (&'static str, Check)> {
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    check.ok_or_else(|| Error::not_found(format!("unknown check of backends `{name}`")))
}

/// Makes one `#[test]` for each check of [`kernels::CHECKS`](crate::kernels::CHECKS) of a compute backend.
///
/// The expression gives a [`kernels::Subject`](crate::kernels::Subject) anew for each test, or an `Option` of one:
/// where it is `None`, the machine lacks what the tests need, and they pass without judging anything.
///
/// ```ignore
/// use apr_testkit::kernels::Subject;
///
/// /// The card, if there is one.
/// fn subject() -> Option<Subject> {
///     let kernel = (my_backend::PLUGIN.kernel)()?;
///     let device = kernel.open(0, &Options::new()).ok()?;
///     let mut subject = Subject::new(kernel, vec![("card", device)]);
///     subject.workers = vec![1];
///     subject.same_bits = false;
///     subject.slack = 4.0;
///     Some(subject)
/// }
///
/// apr_testkit::kernel_conformance!(subject());
/// ```
///
/// Put it in a module for each of several subjects.
#[macro_export]
macro_rules! kernel_conformance {
    ($subject:expr) => {
        $crate::__kernel_tests! {
            $subject,
            embed norm linear_and_head_linear activate rope attention_with_every_mask
            attention_over_every_type_and_shape experts binary_and_unary pool measure
            operations_in_any_order_compute_the_same
            a_decoder_computes_what_it_should neither_workers_nor_batches_change_the_result
            states_are_copied_trimmed_kept_and_brought_back tokens_values_and_times_are_given
            programs_that_do_not_hold_together_are_refused keys_of_another_shape_are_refused declarations_come_once_and_first
            weights_and_bytes_that_are_none_are_refused batches_beyond_the_limits_are_refused_and_change_nothing
            rows_that_are_no_numbers_give_logits_that_are_none parameters_that_are_no_numbers_give_values_that_are_none
            an_error_of_the_sink_ends_the_step commands_to_sequences_change_no_other values_are_read_whole_or_not_at_all
            logits_are_given_for_outputs_even_if_rows_are_pooled what_is_supported_is_said_with_reasons
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_tests {
    ($subject:expr, $($check:ident)*) => {
        /// The tests that the macro made, so that none is forgotten.
        #[test]
        fn every_check_is_a_test() {
            let names: ::std::vec::Vec<_> = $crate::kernels::CHECKS.iter().map(|(name, _)| *name).collect();
            ::std::assert_eq!(names, [$(::std::stringify!($check)),*]);
        }
        $(
            #[test]
            fn $check() -> ::std::result::Result<(), $crate::Finding> {
                let subject: ::std::option::Option<$crate::kernels::Subject> = ($subject).into();
                let result = $crate::kernels::check_kernel(::std::stringify!($check), subject);
                result.map(|_| ()).map_err($crate::Finding)
            }
        )*
    };
}
