//! Whether float operations are those that the encoders were written for.

#![allow(unsafe_code, reason = "a control register is read by an instruction that no safe function offers")]

/// Whether this thread rounds to the nearest and keeps subnormals. A library built with `-ffast-math` changes that for the
/// thread that loads it; blocks would then be others than ggml's. Always true where it is not known how to ask.
pub fn is_usual() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        /// MXCSR: subnormal results become zero, rounding is not to the nearest (two bits), subnormal operands are zero.
        const UNUSUAL: u32 = 0x8000 | 0x6000 | 0x0040;
        let mut control = 0u32;
        // SAFETY: writes the register's four bytes to a place of four bytes, and nothing else.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags))
        };
        control & UNUSUAL == 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::quantizer::Quants;
    use apr_sdk::{DType, Quantizer};

    fn set(control: u32) {
        // SAFETY: reads four bytes. The register is set back before any float operation whose result is looked at.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack)) };
    }

    #[test]
    fn nothing_is_encoded_while_floats_are_not_as_usual() {
        let rows = [1.0f32; 32];
        for (control, usual) in
            [(0x1f80, true), (0x9f80, false), (0x1fc0, false), (0x3f80, false), (0x7f80, false)]
        {
            let mut out = [0; 34];
            set(control);
            let made = Quants.encode(DType::Q8_0, &rows, 32, None, &mut out);
            set(0x1f80);
            assert_eq!(made.is_ok(), usual, "{control:#x}");
        }
    }
}
