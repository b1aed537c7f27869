//! The program: runs the AppService controller, and prints what is needed to install it.

fn main() -> std::process::ExitCode {
    appservice_controller::operator().main()
}
