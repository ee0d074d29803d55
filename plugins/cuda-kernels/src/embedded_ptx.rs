//! The compiled kernels: PTX for three generations of devices, which the driver compiles further when it loads a module.
//! `compile.py` makes them from `cuda/`, `ptx/lock.txt` says of what, and `build.rs` unpacks them.

macro_rules! modules {
    ($($name:literal)*) => {
        /// The names of all modules.
        pub const NAMES: &[&str] = &[$($name),*];

        /// PTX of a module for a device of compute capability `capability`.
        pub fn ptx(name: &str, capability: (i32, i32)) -> Option<&'static str> {
            Some(match name {
                $($name if capability >= (9, 0) => include_str!(concat!(env!("OUT_DIR"), "/compute_90/", $name, ".ptx")),
                $name if capability >= (8, 0) => include_str!(concat!(env!("OUT_DIR"), "/compute_80/", $name, ".ptx")),
                $name => include_str!(concat!(env!("OUT_DIR"), "/compute_70/", $name, ".ptx")),)*
                _ => return None,
            })
        }
    };
}

modules! {
    "rows" "rotate" "matmul" "attention_f32" "attention_f16" "attention_q8_0" "matvec_f32" "matvec_f16" "matvec_bf16"
    "matvec_q4_0" "matvec_q4_1" "matvec_q5_0" "matvec_q5_1" "matvec_q8_0" "matvec_q4_k" "matvec_q5_k" "matvec_q6_k"
    "matvec_mixed"
}
