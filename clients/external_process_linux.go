package clients

import (
	"os/exec"
	"syscall"
)

// alone gives the process a group of its own, so that it does not hear ctrl-C, and all of
// it can be killed; and lets the kernel kill it if this process is killed.
func alone(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killAll kills the process and those that it started.
func killAll(command *exec.Cmd) {
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // it may be gone
}
