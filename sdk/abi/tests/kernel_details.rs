//! What a newer host says to a backend beyond what this version knows, and what it must not say: details are passed over,
//! numbers that fit no matrix or batch are refused before any code of the plugin sees them.

use crate::kernel_toy::ToyKernel;
use crate::toy::heard;
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RNone, ROk, RSlice, RSome};
use apr_abi::adapt::error::from_wire;
use apr_abi::adapt::kernel::ToWireKernel;
use apr_abi::wire::*;
use apr_sdk::{Error, ErrorKind, OpCode, Program, Sampler};

/// A host of one worker that takes everything.
#[derive(Default)]
struct Host(Vec<String>);

impl WireDeviceSink for Host {
    fn device(&mut self, info: &WireDeviceInfo<'_>) -> R<()> {
        self.0.push(info.name.as_str().to_owned());
        ROk(())
    }
}

impl WireStepSink for Host {
    fn logits(&mut self, _: u32, logits: RSlice<'_, f32>) -> R<()> {
        self.0.push(format!("{logits:?}"));
        ROk(())
    }

    fn token(&mut self, _: u32, id: u32) -> R<()> {
        self.0.push(id.to_string());
        ROk(())
    }
}

struct Alone;

impl WireBarrier for Alone {
    fn wait(&self) -> R<()> {
        ROk(())
    }
}

impl WireWorkers for Alone {
    fn width(&self) -> u64 {
        1
    }

    fn run(&self, region: &RegionRef<'_>) -> R<()> {
        region.run(0, &WireBarrier_TO::from_ptr(RRef::new(&Alone), TD_Opaque))
    }
}

fn kernel() -> KernelObject {
    KernelObject::from_value(ToWireKernel::new(Box::new(ToyKernel)), TD_Opaque)
}

fn device() -> DeviceObject {
    kernel().open(0, RSlice::EMPTY).into_result().unwrap()
}

fn session(detail: &[u8]) -> SessionObject {
    let program = Program::default().to_bytes().unwrap();
    let limits = WireSessionLimits {
        rows: 1,
        sequences: 2,
        positions: 3,
        padding: 9,
        options: RSlice::EMPTY,
        detail: detail.into(),
    };
    device().compile(program.as_slice().into(), RSlice::EMPTY, &limits).into_result().unwrap()
}

fn batch<'a>(lists: [&'a [u32]; 4], sampler: &'a [u8], detail: &'a [u8]) -> WireBatch<'a> {
    let [ids, positions, sequences, outputs] = lists.map(RSlice::from);
    WireBatch {
        ids,
        positions,
        sequences,
        outputs,
        rows: RNone,
        sampler: sampler.into(),
        detail: detail.into(),
    }
}

fn step(session: &mut SessionObject, batch: &WireBatch<'_>) -> Result<Vec<String>, Error> {
    let mut host = Host::default();
    let workers = WireWorkers_TO::from_ptr(RRef::new(&Alone), TD_Opaque);
    let mut sink = WireStepSink_TO::from_ptr(RMut::new(&mut host), TD_Opaque);
    let stepped = session.step(batch, &workers, &mut sink).into_result().map_err(from_wire);
    drop(sink);
    stepped.map(|()| host.0)
}

/// What the toy hears and says where a host adds `detail` wherever it can.
fn compute_with(detail: &[u8]) -> Vec<String> {
    let op = WireOp {
        fields: RSlice::EMPTY,
        weights: [DTypeNumber(1)].as_slice().into(),
        code: OpCode::LINEAR.0,
        version: 1,
        detail: detail.into(),
    };
    assert_eq!(kernel().supports(0, &op).into_result().unwrap().answer, SupportNumber::YES);
    let mut session = session(detail);
    let rows = [1.5f32, 2.5];
    let mut asked = batch([&[7], &[0], &[0], &[0]], &[], detail);
    asked.rows = RSome(rows.as_slice().into());
    let mut said = step(&mut session, &asked).unwrap();
    let greedy = Sampler::Greedy.to_bytes();
    said.extend(step(&mut session, &batch([&[7], &[0], &[0], &[0]], &greedy, detail)).unwrap());
    said.extend(heard());
    said
}

#[test]
fn a_backend_passes_over_details() {
    let plain = compute_with(&[]);
    assert!(plain.iter().any(|line| line.contains("positions: 3")), "{plain:?}");
    let mut newer = Vec::new();
    pairs::push(&mut newer, "of the future", b"\x01");
    assert_eq!(compute_with(&newer), plain);
    assert_eq!(compute_with(b"damaged"), plain);
}

#[test]
fn what_is_no_matrix_or_batch_reaches_no_backend() {
    let device = device();
    heard();
    for (rows, columns, dtype) in [(0, 4, 0), (1, 0, 0), (1, 3, 12), (u64::MAX, 4, 0), (1, 4, 0x7fff_ffff)] {
        let dtype = DTypeNumber(dtype);
        let matrix = WireMatrix { rows, columns, dtype, padding: 0, reserved: [0; 2] };
        assert!(device.image(&matrix).into_result().is_err(), "{rows} {columns}");
    }
    let mut session = session(&[]);
    heard();
    for lists in [
        [&[][..], &[], &[], &[]],
        [&[1, 2], &[0], &[0, 0], &[]],
        [&[1, 2], &[0, 1], &[0], &[]],
        [&[1], &[0], &[0], &[1]],
        [&[1, 2], &[0, 1], &[0, 0], &[1, 0]],
    ] {
        let error = step(&mut session, &batch(lists, &[], &[])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
    }
    for sampler in [&[0, 0][..], &[9, 0, 0, 0, 1, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0]] {
        assert!(step(&mut session, &batch([&[1], &[0], &[0], &[]], sampler, &[])).is_err());
    }
    assert_eq!(heard(), Vec::<String>::new());
}

#[test]
fn a_version_beyond_every_record_is_answered_no() {
    let op = WireOp {
        fields: RSlice::EMPTY,
        weights: RSlice::EMPTY,
        code: OpCode::LINEAR.0,
        version: 1 << 16,
        detail: RSlice::EMPTY,
    };
    let support = kernel().supports(0, &op).into_result().unwrap();
    assert_eq!(support.answer, SupportNumber::NO);
    assert_eq!(support.reason, "unknown version 65536 of the operation `linear`");
}

#[test]
fn a_host_hears_of_every_device() {
    let mut host = Host::default();
    kernel()
        .devices(&mut WireDeviceSink_TO::from_ptr(RMut::new(&mut host), TD_Opaque))
        .into_result()
        .unwrap();
    assert_eq!(host.0, ["toy é", "broken"]);
}
