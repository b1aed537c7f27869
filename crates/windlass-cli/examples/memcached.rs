//! The Memcached operator as a program, for the tests of `windlass run` and `windlass dev`.

fn main() -> std::process::ExitCode {
    memcached_operator::operator().main()
}
