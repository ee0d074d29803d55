//! A plugin that does everything a plugin must not: it panics in every place, prints, and gives hostile numbers, each on
//! request. The tests build it by itself, outside the workspace.

use apr_sdk::*;

mod allocator;

apr_sdk::export_plugin! {
    id: rogue,
    manifest: "
        formats=rogue rogue_new
        rogue.name=Rogue
        rogue.roles=read write
        rogue.magic=0:524f475545
        rogue.extensions=rogue
        rogue.option.mode=both text - What to do wrong
        rogue_new.roles=read write
    ",
    reader: |format| {
        if token() == "rogue-token-reading0" {
            crash("segv");
        }
        assert!(format == "rogue", "no reader for you");
        Some(Box::new(Rogue::default()))
    },
    writer: |format| {
        assert!(format == "rogue", "no writer for you");
        Some(Box::new(Rogue::default()))
    },
}

/// Runs when the library is loaded, before any check of its layout: leaves a file that is named by the token, which the
/// tests change in each copy. So a refusal that comes too late is seen.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = {
    extern "C" fn init() {
        let token = token();
        match token.as_str() {
            "rogue-token-aborting" => std::process::abort(),
            "rogue-token-leaving0" => std::process::exit(0),
            _ => {}
        }
        let _ = std::fs::write(std::path::Path::new(env!("APR_ROGUE_MARKERS")).join(token), "");
    }
    init
};

#[used]
static TOKEN: [u8; 20] = *b"rogue-token-00000000";

fn token() -> String {
    std::hint::black_box(&TOKEN).iter().map(|byte| char::from(*byte)).collect()
}

/// Ends the process, or never comes back.
fn crash(how: &str) {
    match how {
        "segv" => {
            // SAFETY: nothing upholds it: a fault is what is wanted.
            unsafe { std::hint::black_box(std::ptr::null_mut::<u8>()).write_volatile(1) }
        }
        "abort" => std::process::abort(),
        "sink" => std::hint::black_box(sink_in(0)).clear(),
        "loop" => loop {
            std::thread::sleep(std::time::Duration::from_millis(1));
        },
        _ => {}
    }
}

/// Takes the stack.
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn sink_in(depth: u64) -> Vec<u8> {
    let room = std::hint::black_box([depth; 64]);
    let mut deeper = sink_in(depth + 1);
    deeper.push(room[3].to_le_bytes()[0]);
    deeper
}

/// Panics in its drop, and its payload's drop panics too.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the bomb went off");
    }
}

#[derive(Default)]
struct Rogue {
    mode: String,
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.fails("drop");
    }
}

impl Rogue {
    fn with(options: &Options) -> Rogue {
        Rogue { mode: options.get("mode").unwrap_or_default().to_owned() }
    }

    fn fails(&self, place: &str) {
        match self.mode.strip_prefix(place) {
            Some("") => panic!("rogue panics in {place}"),
            Some("-payload") => std::panic::panic_any(Bomb),
            _ => {}
        }
    }
}

impl Reader for Rogue {
    fn probe(&self, look: &Look<'_>) -> Score {
        assert!(look.name != "panics.rogue", "rogue panics in probe");
        if look.head_is(b"ROGUE") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let rogue = Rogue::with(options);
        rogue.fails("open");
        if rogue.mode == "loop" {
            source.log(LogLevel::Warning, "the rogue loops");
        }
        crash(&rogue.mode);
        // The checks of a plugin give no options.
        crash(token().strip_prefix("rogue-token-").unwrap_or_default().trim_end_matches('0'));
        match rogue.mode.as_str() {
            "print" => {
                println!("printed by the rogue");
                print!("printed without an end");
            }
            "log" => source.log(LogLevel::Warning, "logged by the rogue"),
            "charge" => limits.budget.charge(u64::MAX)?,
            "source" => source.read_at(0, 0, &mut [0; 4])?,
            _ => {}
        }
        Ok(Box::new(rogue))
    }
}

impl OpenModel for Rogue {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.fails("describe");
        let len = source.len(0)?;
        let at = |offset, len| Extent::new(0, offset, len);
        match self.mode.as_str() {
            "past-end" => sink.tensor(TensorDecl::plain("t", DType::U8, &[9], at(len, 9))),
            "overflow" => sink.tensor(TensorDecl::plain("t", DType::U8, &[9], at(u64::MAX, 9))),
            "dtype" => sink.tensor(TensorDecl::plain("t", DType(u32::MAX), &[9], at(0, 9))),
            "file" => sink.tensor(TensorDecl::plain("t", DType::U8, &[9], Extent::new(77, 0, 9))),
            "mapped" => sink.mapped(u32::MAX, "t"),
            "foreign" => sink.foreign("k", Value::from_u8(1)),
            "many" => (0..u64::MAX)
                .try_for_each(|n| sink.tensor(TensorDecl::plain(&n.to_string(), DType::U8, &[1], at(0, 1)))),
            _ => sink.tensor(TensorDecl::plain("t", DType::U8, &[len], at(0, len))),
        }
    }

    fn blocks(&self, _: &dyn Source, _: u64, _: &mut dyn BlockSink) -> Result<()> {
        self.fails("blocks");
        Ok(())
    }

    fn decode(&self, _: &Codec, at: BlockAt, _: &[u8], out: &mut [u8]) -> Result<()> {
        self.fails("decode");
        out.fill(at.block.to_le_bytes()[0]);
        Ok(())
    }

    fn stream(&self, _: u64) -> Result<Box<dyn Stream>> {
        self.fails("stream");
        crash(self.mode.strip_prefix("stream-").unwrap_or_default());
        Ok(Box::new(Rogue { mode: self.mode.clone() }))
    }
}

impl Stream for Rogue {
    fn read(&mut self, _: &dyn Source, out: &mut [u8]) -> Result<usize> {
        self.fails("read");
        if self.mode == "count" { Ok(usize::MAX) } else { Ok(out.len()) }
    }
}

impl Writer for Rogue {
    fn layout(&self, _: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let rogue = Rogue::with(&request.options);
        rogue.fails("layout");
        match rogue.mode.as_str() {
            "no-file" => sink.inline(b"x"),
            "tensor" => sink.file("f").and_then(|()| sink.payload(u64::MAX, 3, Encoding::Raw)),
            "outside" => sink.file("../../f"),
            _ => sink.file("f").and_then(|()| sink.inline(b"ROGUE")),
        }
    }

    fn finish(&self, written: &Written, _: &mut dyn PatchSink) -> Result<()> {
        assert!(written.files.is_empty(), "rogue panics in finish");
        Ok(())
    }

    fn dtypes(&self, tensors: &[TensorFacts], _: Option<DType>) -> Result<Vec<DTypeChoice>> {
        assert!(tensors.len() < 3, "rogue panics in dtypes");
        Ok(vec![DTypeChoice::Keep; 1000])
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        assert!(codec.number != 1, "rogue panics in encoded_bound");
        Ok(raw_len)
    }

    fn encode(&self, codec: &Codec, _: BlockAt, _: &[u8], _: &mut [u8]) -> Result<usize> {
        assert!(codec.number != 1, "rogue panics in encode");
        Ok(usize::MAX)
    }
}
