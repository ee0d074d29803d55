//! Verdicts, and the places of operations.

use super::*;

fn finding(judged: usize, unjudged: usize) -> Finding {
    Finding { judged, unjudged, ..Finding::default() }
}

#[test]
fn a_stage_passes_only_if_something_was_judged() {
    assert_eq!(finding(2, 0).into_stage(4, Vec::new()).verdict, Verdict::Passed);
    assert_eq!(finding(0, 2).into_stage(4, Vec::new()).verdict, Verdict::NotJudged);
    let some = finding(1, 2).into_stage(4, Vec::new());
    assert_eq!((some.verdict, some.remarks.len()), (Verdict::Passed, 1));
    let absent = Finding { absent: Some("none".to_owned()), ..Finding::default() };
    assert_eq!(absent.into_stage(4, Vec::new()).verdict, Verdict::NotApplicable);
}

#[test]
fn what_arises_in_a_stage_fails_it_even_if_the_rest_is_right() {
    let stage = finding(3, 0).into_stage(6, vec!["NaN".to_owned()]);
    assert_eq!((stage.verdict, stage.name), (Verdict::Failed, "Feed-forward (MLP)"));
    let stages = [stage, finding(1, 0).into_stage(7, Vec::new())];
    assert_eq!(counts(&stages), (1, 2));
}

#[test]
fn the_worst_figure_is_kept_and_nan_is_worst() {
    let mut finding = Finding::default();
    finding.smallest("n", 2.0, "a");
    finding.smallest("n", 1.0, "b");
    finding.smallest("n", 3.0, "c");
    assert_eq!(finding.figure.as_ref().map(|figure| (figure.value, figure.place.as_str())), Some((1.0, "b")));
    finding.largest("n", f64::NAN, "d");
    assert!(finding.figure.is_some_and(|figure| figure.value.is_nan()));
}

#[test]
fn a_round_trip_must_give_its_tokens_again() {
    let subject = |ids: &[u32], again: &[u32]| Subject {
        round_trip: Some(RoundTrip::Done { ids: ids.to_vec(), text: "t".to_owned(), again: again.to_vec() }),
        tokens: Some(5),
        vocabulary: 5,
    };
    assert!(tokenizer::judge(&subject(&[1, 2], &[1, 2])).faults.is_empty());
    assert_eq!(tokenizer::judge(&subject(&[1, 2], &[1, 3])).faults.len(), 1);
    assert_eq!(tokenizer::judge(&subject(&[1, 5], &[1, 5])).faults.len(), 1);
    let larger = Subject { vocabulary: 4, ..subject(&[1], &[1]) };
    assert_eq!(tokenizer::judge(&larger).faults.len(), 1);
    assert!(tokenizer::judge(&Subject::default()).absent.is_some());
}
