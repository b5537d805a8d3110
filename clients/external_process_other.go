//go:build !linux

package clients

import (
	"os/exec"
	"syscall"
)

// alone gives the process a group of its own, so that it does not hear ctrl-C. If this
// process is killed it finds its standard input ended.
func alone(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killAll kills the process and those that it started.
func killAll(command *exec.Cmd) {
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // it may be gone
}
