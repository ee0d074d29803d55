//! Round trips, once there is a writer.
