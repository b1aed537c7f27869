//! The program: runs the Warpdrive operator, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    warpdrive_operator::operator().main()
}
