//! Unpacks the compiled kernels: from each bundle of `ptx/`, the modules in the order and of the sizes that `ptx/lock.txt` states.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=ptx");
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?;
    let lock = fs::read_to_string("ptx/lock.txt")?;
    for generation in ["compute_70", "compute_80", "compute_90"] {
        let bundle = fs::File::open(format!("ptx/{generation}.zst"))?;
        let mut modules = ruzstd::decoding::StreamingDecoder::new(bundle)?;
        let folder = Path::new(&out).join(generation);
        fs::create_dir_all(&folder)?;
        for line in lock.lines() {
            let [_, path, size] = line.split("  ").collect::<Vec<_>>()[..] else { continue };
            let Some(name) = path.strip_prefix(&format!("ptx/{generation}/")) else { continue };
            let mut text = vec![0; size.parse()?];
            modules.read_exact(&mut text)?;
            fs::write(folder.join(name), text)?;
        }
    }
    Ok(())
}
