//! Closes what the worker inherited: whoever started `apr` may have left files open in it.

/// Descriptors that are tried one by one where the system closes no ranges.
const MOST: i32 = 4096;

/// Closes all descriptors but the standard ones.
pub fn close_inherited() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: nothing in this process has opened a descriptor yet: it is the first thing that the process does, on its
        // only thread, so that no object owns one of those that are closed.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
        if closed == 0 {
            return;
        }
    }
    for descriptor in 3..MOST {
        // SAFETY: as above; one that is not open is an error that changes nothing.
        unsafe { libc::close(descriptor) };
    }
}
