//! A compute backend's objects with the plugin's name: also where its code runs on the host's workers.

use super::{Owned, Owner};
use apr_sdk::{
    Barrier, Batch, Device, DeviceSink, ImageMemory, ImageSink, ImageSpec, Kernel, MatrixSpec, Memory,
    OpSpec, Options, Result, Rows, RowsSink, Session, SessionLimits, StateCommand, StepSink, Support,
    TimingSink, Weight, Workers,
};

impl Kernel for Owned<dyn Kernel> {
    fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
        self.owner.call("listing devices", || self.object.devices(sink))
    }

    fn supports(&self, device: u32, op: &OpSpec<'_>) -> Result<Support> {
        self.owner.call("checking support for an operation", || self.object.supports(device, op))
    }

    fn open(&self, device: u32, options: &Options) -> Result<Box<dyn Device>> {
        let device = self.owner.call("opening a device", || self.object.open(device, options))?;
        Ok(Box::new(Owned::new(device, "dropping a device", &self.owner)))
    }
}

impl Device for Owned<dyn Device> {
    fn memory(&self) -> Result<Memory> {
        self.owner.call("measuring memory", || self.object.memory())
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        self.owner.call("preparing a matrix", || self.object.image(matrix))
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        self.owner.call("preparing a matrix", || self.object.prepare(matrix, rows, image))
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        self.owner.call("taking over an image", || self.object.adopt(matrix, image))
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        self.owner.call("releasing a matrix", || self.object.export(weight, out))
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn Session>> {
        let session =
            self.owner.call("compiling a program", || self.object.compile(program, weights, limits))?;
        Ok(Box::new(Owned::new(session, "dropping a session", &self.owner)))
    }
}

impl Session for Owned<dyn Session> {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        let object = &mut self.object;
        let owner = &*self.owner;
        owner.call(STEP, || object.step(batch, &Lent { workers, owner }, out))
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        let object = &mut self.object;
        self.owner.call("changing a state", || object.state(command))
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        let object = &mut self.object;
        self.owner.call("reading a value", || object.read(value, out))
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        self.owner.call("reading times", || self.object.timings(sink))
    }
}

/// A backend's work in a step, on whichever thread.
const STEP: &str = "computing a step";

/// Workers lent to a backend. What it does on each is a call into the plugin: a panic there names it, and a crash too.
struct Lent<'a> {
    workers: &'a dyn Workers,
    owner: &'a Owner,
}

impl Workers for Lent<'_> {
    fn width(&self) -> usize {
        self.workers.width()
    }

    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        self.workers.run(&|worker, barrier| self.owner.call(STEP, || body(worker, barrier)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Named;
    use super::*;
    use crate::plugins::running::running;
    use crate::threads::Team;
    use apr_engine::registry::{Linked, Provider};
    use apr_sdk::{Error, ErrorKind, PluginDecl};
    use std::sync::Arc;

    /// Every object of a backend. A step fails as the first token says.
    struct Faulty;

    impl Kernel for Faulty {
        fn devices(&self, _: &mut dyn DeviceSink) -> Result<()> {
            panic!("on purpose")
        }
        fn supports(&self, _: u32, _: &OpSpec<'_>) -> Result<Support> {
            Err(Error::unsupported("not the plugin's fault"))
        }
        fn open(&self, _: u32, _: &Options) -> Result<Box<dyn Device>> {
            Ok(Box::new(Faulty))
        }
    }

    impl Device for Faulty {
        fn memory(&self) -> Result<Memory> {
            Err(Error::plugin("cannot say"))
        }
        fn image(&self, _: &MatrixSpec) -> Result<ImageSpec> {
            Err(Error::plugin("cannot say"))
        }
        fn prepare(&self, _: &MatrixSpec, _: &dyn Rows, _: &mut dyn ImageSink) -> Result<Weight> {
            Ok(Weight(0))
        }
        fn adopt(&self, _: &MatrixSpec, _: Box<dyn ImageMemory>) -> Result<Weight> {
            Ok(Weight(0))
        }
        fn export(&self, _: Weight, _: &mut dyn RowsSink) -> Result<()> {
            Ok(())
        }
        fn compile(&self, _: &[u8], _: &[Weight], _: &SessionLimits) -> Result<Box<dyn Session>> {
            Ok(Box::new(Faulty))
        }
    }

    impl Session for Faulty {
        fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, _: &mut dyn StepSink) -> Result<()> {
            let first = batch.ids()[0];
            workers.run(&|worker, barrier| {
                assert_eq!(running().map(|call| call.doing), Some(STEP));
                barrier.wait()?;
                assert!(worker != 1 || first != 7, "on a worker");
                barrier.wait()
            })
        }
        fn state(&mut self, _: &StateCommand) -> Result<()> {
            Ok(())
        }
        fn read(&mut self, _: u32, _: &mut [f32]) -> Result<()> {
            Ok(())
        }
        fn timings(&self, _: &mut dyn TimingSink) -> Result<()> {
            Ok(())
        }
    }

    /// Takes nothing.
    struct Nowhere;

    impl DeviceSink for Nowhere {
        fn device(&mut self, _: apr_sdk::DeviceInfo) -> Result<()> {
            Ok(())
        }
    }

    impl StepSink for Nowhere {
        fn logits(&mut self, _: u32, _: &[f32]) -> Result<()> {
            Ok(())
        }
        fn token(&mut self, _: u32, _: u32) -> Result<()> {
            Ok(())
        }
    }

    static DECL: PluginDecl = PluginDecl { kernel: || Some(Box::new(Faulty)), ..PluginDecl::EMPTY };

    #[test]
    fn a_linked_backend_is_named_wherever_it_fails() {
        let kernel = Named::new(Linked(&DECL), "faulty", "1.0").kernel().unwrap();
        let named = |error: Error, words: &str| {
            assert!(error.message().starts_with("plugin `faulty` 1.0"), "{error:?}");
            assert!(error.message().contains(words), "{error:?}");
        };
        named(kernel.devices(&mut Nowhere).unwrap_err(), "panicked while listing devices: \"on purpose at ");
        let op = OpSpec { code: apr_sdk::OpCode::NORM, version: 1, fields: &[], weights: &[] };
        assert_eq!(kernel.supports(0, &op).unwrap_err().kind(), ErrorKind::Unsupported);
        let device = kernel.open(0, &Options::new()).unwrap();
        named(device.memory().unwrap_err(), "cannot say");
        let mut session = device.compile(&[], &[], &SessionLimits::new(1, 1, 1)).unwrap();
        let team = Team::new(3, Arc::default());
        for _ in 0..3 {
            let failing = Batch::new(&[7], &[0], &[0], &[]).unwrap();
            let error = session.step(&failing, &team, &mut Nowhere).unwrap_err();
            named(error, "panicked while computing a step: \"on a worker at ");
            let batch = Batch::new(&[1], &[0], &[0], &[]).unwrap();
            session.step(&batch, &team, &mut Nowhere).unwrap();
        }
    }
}
