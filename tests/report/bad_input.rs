//! Models that would break a page: names that are markup, values that are no numbers, nothing at all, far too much.

use crate::{bytes, measured, page, weights, write};
use apr_engine::survey::Status;
use apr_tests::{Scratch, host};

/// The page with all that stands in its tags taken away, entities still as they are.
fn texts(page: &str) -> Vec<&str> {
    page.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(_, text)| text).collect()
}

/// The names of all tags.
fn tags(page: &str) -> Vec<String> {
    let name =
        |rest: &str| rest.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
    let mut tags: Vec<String> = page.split('<').skip(1).map(name).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Everything that a page is made of.
const KNOWN: [&str; 41] = [
    "", "a", "body", "code", "dd", "details", "div", "dl", "dt", "footer", "h1", "h2", "h3", "head",
    "header", "html", "li", "link", "main", "meta", "nav", "p", "path", "section", "small", "span", "strong",
    "style", "summary", "svg", "table", "tbody", "td", "th", "thead", "title", "tr", "ul", "figure",
    "circle", "text",
];

fn check(page: &str) {
    for tag in tags(page) {
        // The one empty name is that of `<!DOCTYPE`.
        assert!(KNOWN.contains(&tag.as_str()), "<{tag}> in the page");
    }
    assert_eq!(page.matches("<!").count(), 1);
    assert!(!page.contains("http") || !page.contains("://"), "an address is in the page");
    let body = page.split("</style>").nth(1).unwrap();
    for attribute in [" style=", " onerror=", " onload=", " src="] {
        for tag in body.split('<').filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
            assert!(!tag.contains(attribute), "{attribute} in <{tag}>");
        }
    }
}

#[test]
fn names_with_markup_stay_names() {
    let scratch = Scratch::new();
    let path = scratch.at("a<b>&c.safetensors");
    let names = [
        "<script>alert(1)</script>",
        "</code></th></table><img src=x onerror=alert(1)>",
        "\"' onload=alert(1) x=\"",
        "{{ view }}{% raw %}",
        "blk.0.\u{202e}gnp.exe",
        "blk.1.a\u{0}b\u{1b}[31m\n",
        "&lt;b&gt;",
        "<!--.0.-->",
    ];
    let tensors: Vec<_> = names.iter().map(|name| (*name, "F32", &[2][..], bytes(&[1.0, 2.0]))).collect();
    write(&path, &tensors);
    let page = page(&path);
    check(&page);
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}') && !page.contains('\0'));
    let text = texts(&page).join("\n");
    assert!(text.contains("&lt;script&gt;alert(1)&lt;&#x2f;script&gt;"), "{text}");
    assert!(text.contains("&amp;lt;b&amp;gt;") && text.contains("{{ view }}{% raw %}"), "{text}");
    assert!(text.contains("u{202e}gnp.exe"), "{text}");
    // What is compared goes another way through the templates.
    let host = host();
    let two = apr_host::report::survey_page(&measured(&host, &path, Some(&path)), None).unwrap();
    check(&two);
}

#[test]
fn values_that_are_no_numbers_are_counted_and_shown() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0];
    write(
        &path,
        &[
            ("all", "F32", &[2, 2], bytes(&[f32::NAN; 4])),
            ("some", "F32", &[4], bytes(&odd)),
            ("double", "F64", &[2], [f64::MAX, f64::MIN].iter().flat_map(|v| v.to_le_bytes()).collect()),
            ("zeros", "F32", &[3], bytes(&[0.0; 3])),
        ],
    );
    let found = measured(&host(), &path, None);
    let told = |name: &str| -> Vec<String> {
        let of = found.findings.iter().filter(|f| f.tensor.as_deref() == Some(name));
        of.map(|finding| finding.message.clone()).collect()
    };
    assert!(told("all")[0].starts_with("4 NaN and 0 infinite of its 4 values"), "{:?}", told("all"));
    assert!(told("some")[0].starts_with("1 NaN and 2 infinite of its 4 values"), "{:?}", told("some"));
    assert_eq!(told("zeros"), ["all its 3 values are 0"]);
    assert!(told("double").is_empty());
    let all = found.tensors[0].a.as_ref().unwrap();
    assert!(all.histogram.is_none() && all.rms.is_none());
    let page = page(&path);
    check(&page);
    for word in ["NaN<", "inf<", ">NaN", ">inf"] {
        assert!(!page.contains(word), "{word}");
    }
    serde_json::to_string(&found).unwrap();
}

#[test]
fn odd_shapes_and_types_have_their_rows() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    write(
        &path,
        &[
            ("scalar", "F32", &[], bytes(&[0.5])),
            ("empty", "F32", &[0], Vec::new()),
            ("empty.2", "F32", &[4, 0, 2], Vec::new()),
            ("flags", "BOOL", &[5], vec![0, 1, 1, 1, 0]),
            ("ids", "I64", &[2], [i64::MIN, i64::MAX].iter().flat_map(|v| v.to_le_bytes()).collect()),
            ("bytes", "U8", &[256], (0..=255).collect()),
        ],
    );
    let found = measured(&host(), &path, None);
    let of = |name: &str| found.tensors.iter().find(|t| t.name == name).unwrap().a.clone().unwrap();
    assert_eq!(of("scalar").statistics.unwrap().max, Some(0.5));
    assert_eq!(of("empty").statistics.unwrap().values, 0);
    assert!(of("empty.2").histogram.is_none());
    let flags = of("flags");
    assert_eq!(flags.statistics.unwrap().zeros, 2);
    let bins = flags.histogram.unwrap();
    assert_eq!((bins.counts.first(), bins.counts.last()), (Some(&2), Some(&3)));
    assert_eq!(of("ids").statistics.unwrap().min, Some(i64::MIN as f64));
    assert_eq!(of("bytes").histogram.unwrap().counts.iter().sum::<u64>(), 256);
    let page = page(&path);
    check(&page);
    assert!(page.contains("<td>scalar</td>") && page.contains("<td>4 × 0 × 2</td>"), "{page}");
}

#[test]
fn an_empty_model_has_a_page() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    write(&path, &[]);
    let page = page(&path);
    check(&page);
    assert!(page.contains("The model has no tensors."));
    let both = measured(&host(), &path, Some(&path));
    assert!(both.heat_map.is_none());
    check(&apr_host::report::survey_page(&both, None).unwrap());
}

#[test]
fn names_of_64_kib_do_not_flood_the_page() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    // The longest that are read.
    let (long, deep) = ("<".repeat((1 << 16) - 1), "1.".repeat((1 << 15) - 1));
    write(&path, &[(&long, "F32", &[1], bytes(&[1.0])), (&deep, "F32", &[1], bytes(&[1.0]))]);
    let page = page(&path);
    check(&page);
    assert!(page.len() < 40_000, "{} bytes", page.len());
}

#[test]
fn a_thousand_layers_stay_in_order_and_in_proportion() {
    let scratch = Scratch::new();
    let (path, other) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let names: Vec<String> = (0..1000)
        .flat_map(|n| ["q", "k", "v"].map(|kind| format!("model.layers.{n}.{kind}.weight")))
        .collect();
    let tensors = |seed| -> Vec<_> {
        let values = weights(64, seed);
        names.iter().map(|name| (name.as_str(), "F32", &[8, 8][..], bytes(&values))).collect()
    };
    write(&path, &tensors(1));
    write(&other, &tensors(2));
    let found = measured(&host(), &path, Some(&other));
    assert_eq!(found.layers.len(), 1000);
    let map = found.heat_map.as_ref().unwrap();
    assert_eq!((map.rows.len(), map.kinds.len(), map.left_out), (1000, 3, 0));
    let page = apr_host::report::survey_page(&found, None).unwrap();
    check(&page);
    assert_eq!(page.matches("<details").count(), 1000);
    assert!(page.len() < 3000 * 1500, "{} bytes for 3000 tensors", page.len());
}

#[test]
fn what_only_one_model_has_and_what_cannot_be_compared_is_told() {
    let scratch = Scratch::new();
    let (path, other) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let four = bytes(&[1.0, 2.0, 3.0, 4.0]);
    write(
        &path,
        &[
            ("same", "F32", &[4], four.clone()),
            ("shape", "F32", &[4], four.clone()),
            ("complex", "C64", &[2], four.clone()),
            ("nan", "F32", &[4], bytes(&[f32::NAN, 2.0, 3.0, 4.0])),
            ("mine", "F32", &[4], four.clone()),
        ],
    );
    write(
        &other,
        &[
            ("same", "F32", &[4], four.clone()),
            ("shape", "F32", &[2, 2], four.clone()),
            ("complex", "F32", &[2], bytes(&[1.0, 2.0])),
            ("nan", "F32", &[4], four.clone()),
            ("yours", "I8", &[4], vec![1, 2, 3, 4]),
        ],
    );
    let found = measured(&host(), &path, Some(&other));
    let status: Vec<_> = found.tensors.iter().map(|t| (t.name.as_str(), t.status.unwrap())).collect();
    assert_eq!(
        status,
        [
            ("same", Status::Identical),
            ("shape", Status::Shape),
            ("complex", Status::NotCompared),
            ("nan", Status::Different),
            ("mine", Status::OnlyInA),
            ("yours", Status::OnlyInB),
        ]
    );
    // What is not compared is measured all the same.
    assert!(found.tensors[1].b.as_ref().unwrap().statistics.is_some());
    assert_eq!(found.tensors[2].a.as_ref().unwrap().statistics.as_ref().unwrap().values, 4);
    let messages: Vec<_> = found.findings.iter().map(|finding| finding.message.as_str()).collect();
    for want in [
        "its shape is [4] in a and [2, 2] in b: values were not compared",
        "its values (C64 in a, F32 in b) were not compared",
        "NaN or infinity at different positions: 1 value",
        "only in a",
        "only in b",
    ] {
        assert!(messages.contains(&want), "{want}: {messages:#?}");
    }
    check(&apr_host::report::survey_page(&found, None).unwrap());
}
