//! The program: runs the Memcached operator, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    memcached_operator::operator().main()
}
