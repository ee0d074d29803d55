//! `apr check`: mistakes that are planted in one operation of a device are found there; and what the kernels for NVIDIA's
//! devices compute, run on the processor, is what the processor's own do, operation by operation.

use crate::cuda::emulated;
use crate::golden::{Case, cases, folder, models};
use crate::loading::{exact, host_with, trained, try_load};
use apr_host::host::Host;
use apr_host::running::{Backend, LoadOptions, Loaded};
use apr_inference::compare::{Found, Side, compare};
use apr_sdk::{
    Device, DeviceSink, ImageMemory, ImageSink, ImageSpec, Kernel, MatrixSpec, Memory, OpSpec, Operation,
    Options, PluginDecl, Program, Result, Rows, RowsSink, Session, SessionLimits, Support, Weight,
};
use apr_testkit::Checkpoint;
use apr_tests::Scratch;
use std::cell::Cell;
use std::path::Path;

/// The processor's kernels, over programs in which one operation is another.
struct Faulty(Box<dyn Kernel>);

struct FaultyDevice(Box<dyn Device>, usize);

thread_local! {
    /// The operation with the mistake.
    static MISTAKEN: Cell<usize> = const { Cell::new(0) };
}

/// Plants a mistake; returns whether there is one for such an operation.
fn mistake(operation: &mut Operation) -> bool {
    match operation {
        Operation::Embed(embed) => embed.scale *= 1.5,
        Operation::Norm(norm) => norm.epsilon += 1e4,
        Operation::Linear(linear) => linear.scale *= 1.2,
        Operation::Rope(rope) => rope.frequencies.iter_mut().for_each(|frequency| *frequency *= 1.5),
        Operation::Attention(attention) => attention.scale *= 0.2,
        Operation::Activate(activate) => activate.up = None,
        _ => return false,
    }
    true
}

impl Kernel for Faulty {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        self.0.devices(sink)
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        self.0.supports(device, op)
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn Device>> {
        Ok(Box::new(FaultyDevice(self.0.open(device, options)?, MISTAKEN.get())))
    }
}

impl Device for FaultyDevice {
    fn memory(&self) -> Result<Memory> {
        self.0.memory()
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        self.0.image(matrix)
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        self.0.prepare(matrix, rows, image)
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        self.0.adopt(matrix, image)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        self.0.export(weight, out)
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn Session>> {
        let mut program = Program::from_bytes(program)?;
        mistake(&mut program.operations[self.1]);
        self.0.compile(&program.to_bytes()?, weights, limits)
    }
}

static FAULTY: PluginDecl = PluginDecl {
    manifest: "id=faulty\nversion=1\nlicense=MIT\nkernels=faulty\n",
    kernel: || Some(Box::new(Faulty((apr_plugin_cpu_kernels::PLUGIN.kernel)()?))),
    ..PluginDecl::EMPTY
};

/// The kernels for NVIDIA's devices on the processor, as the backend `emulated`.
pub static EMULATED: PluginDecl = PluginDecl {
    manifest: "id=emulated\nversion=1\nlicense=MIT\nkernels=emulated\n",
    kernel: || Some(emulated::kernel(true)),
    ..PluginDecl::EMPTY
};

fn load(host: &Host, path: &Path, backend: &str, quantize: Option<&str>) -> Loaded {
    let options = LoadOptions {
        backend: Backend::Named(backend.to_owned()),
        taps: true,
        quantize: quantize.map(str::to_owned),
        ..exact()
    };
    try_load(host, path, &options).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}

fn compared(mut sides: [Loaded; 2], ids: &[u32], bound: f64) -> Vec<Found> {
    let [a, b] = &mut sides;
    let mut sides = [a, b].map(|side| Side { runner: &mut side.runner, built: &side.built });
    compare(&mut sides, ids, bound, &|| Ok(())).unwrap()
}

/// The most by which logits and operations differ, and the names of those that depart.
fn figures(found: &[Found]) -> (f64, f64, Vec<String>) {
    let divergence = found.iter().map(|form| form.logits.worst_divergence()).fold(0.0, f64::max);
    let all = || found.iter().flat_map(|form| &form.operations);
    let error = all().map(|one| one.error).fold(0.0, f64::max);
    let departing = all().filter(|one| one.departs);
    (divergence, error, departing.map(|one| format!("{} {}", one.operation, one.result)).collect())
}

/// Models that llama.cpp judges (`tests/interop`), of operations that those judged by transformers lack: sinks and experts with biases and
/// bounds; scaled branches and shared experts; gates on attention; norms without gains; norms after the rotation.
const OF_OTHER_OPERATIONS: [&str; 5] = ["gpt-oss", "granite-moe", "afmoe", "olmo", "maincoder"];

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|n| 5 + n * 37 % 400).collect()
}

#[test]
fn a_mistake_in_any_operation_is_found_there() {
    let host = host_with(&FAULTY);
    let program = load(&host, &trained(), "cpu", None).built.program;
    let (mut found, mut missed) = (0, Vec::new());
    // The first two layers and the end: every kind of operation is there.
    let numbers = (0..30).chain(program.operations.len() - 4..program.operations.len());
    for number in numbers {
        if !mistake(&mut program.operations[number].clone()) {
            continue;
        }
        MISTAKEN.set(number);
        let sides = [load(&host, &trained(), "faulty", None), load(&host, &trained(), "cpu", None)];
        for form in compared(sides, &ids(12), 1e-3) {
            match form.operations.iter().find(|one| one.departs) {
                Some(first) if first.number == number => found += 1,
                other => missed.push((
                    number,
                    program.operations[number].code().0.name(),
                    form.form,
                    other.cloned(),
                )),
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(found >= 40, "{found}");
}

#[test]
fn without_a_mistake_nothing_departs() {
    let host = host_with(&EMULATED);
    let sides = [load(&host, &trained(), "cpu", None), load(&host, &trained(), "cpu", None)];
    let found = compared(sides, &ids(10), 0.0);
    assert_eq!(figures(&found), (0.0, 0.0, Vec::new()));
    assert!(found.iter().all(|form| form.tokens == 5 && form.logits.rows() == 5));
}

#[test]
#[ignore = "prints figures of the model that APR_COMPARED names, with weights in blocks"]
fn how_far_rounding_takes_a_model_on_nvidias_devices() {
    let path = std::env::var_os("APR_COMPARED").expect("APR_COMPARED names a model");
    let host = host_with(&EMULATED);
    let load = |(backend, as_floats): (&str, bool)| {
        let options = LoadOptions {
            backend: Backend::Named(backend.to_owned()),
            taps: true,
            as_floats,
            context: Some(64),
            ..exact()
        };
        try_load(&host, Path::new(&path), &options).unwrap()
    };
    let (processor, device, floats) = (("cpu", false), ("emulated", false), ("cpu", true));
    for sides in [[processor, floats], [device, floats], [device, processor]] {
        for form in compared(sides.map(load), &ids(8), 1.0) {
            let (logits, form) = (form.logits, form.form);
            println!(
                "{sides:?} {form:?}: cosine {:.4}, divergence {:.1e}",
                logits.cosine(),
                logits.divergence()
            );
        }
    }
}

#[test]
fn every_family_computes_the_same_on_nvidias_devices() {
    if emulated::library().is_none() {
        return apr_tests::skipped("families on NVIDIA's devices: there is no C++ compiler");
    }
    let host = host_with(&EMULATED);
    let scratch = Scratch::new();
    let (mut count, mut wrong) = (0, Vec::new());
    let others = OF_OTHER_OPERATIONS.map(str::to_owned);
    for model in models().into_iter().chain(others.clone()) {
        let path = scratch.at(&model).join(folder(&model).file_name().unwrap());
        // Prompts of more rows than a step of few has, so that both kinds of kernels run.
        let mut ids = ids(20);
        if others.contains(&model) {
            Checkpoint::golden(&folder(&model)).unwrap().write_to(&path).unwrap();
        } else {
            let plain = |case: &Case| !case.hidden && case.name != "sharp";
            let Some(case) = cases(&model).into_iter().find(plain) else { continue };
            case.write_to(&path);
            ids = case.ids.iter().copied().cycle().take(20).collect();
        }
        for (recipe, bound, most) in [(None, 1e-3, 1e-6), (Some("Q8_0"), 0.05, 0.1)] {
            let started = std::time::Instant::now();
            let sides = ["emulated", "cpu"].map(|backend| load(&host, &path, backend, recipe));
            let (divergence, error, departing) = figures(&compared(sides, &ids, bound));
            println!(
                "{model} {recipe:?}: error {error:.1e}, divergence {divergence:.1e}, {:?}",
                started.elapsed()
            );
            // Random weights score experts nearly alike, and a score is one number, often near zero: any rounding is large.
            let is_score = |name: &String| name.starts_with("route ") || name.ends_with(".score");
            let is_expected = |name: &String| recipe.is_some() && is_score(name);
            if !departing.iter().all(is_expected) || divergence > most {
                wrong.push(format!("{model} {recipe:?}: divergence {divergence:.1e}, {departing:?}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 40, "{count}");
}
