//! The program: runs the operator, and writes what installs it; see `--help`.

fn main() -> std::process::ExitCode {
    scaffold::operator().main()
}
