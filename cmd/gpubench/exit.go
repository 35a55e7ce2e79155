package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes, one a class of outcome; `gpubench help exit-codes` prints them, and the JSON output carries them.
const (
	codeOK           = 0
	codeInternal     = 1
	codeUsage        = 2
	codeGate         = 3
	codeFinding      = 4
	codeInconclusive = 5
	codePluginFault  = 6
	codeBudget       = 7
	codeInterrupted  = 130
)

const exitCodesText = `  0    fine
  1    internal error: a fault of gpubench itself
  2    usage or configuration: what was typed or written in a file cannot be done
  3    a gate or regression: the result is known and is not what was demanded
  4    a finding: an allocator broke a safety check or a promise
  5    inconclusive: the environment or the noise allows no answer
  6    plugin fault: a plugin crashed, hung or broke the protocol
  7    the budget was used up before the minimum of samples
  130  interrupted
`

// exitError carries an exit code with an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// withCode gives err an exit code; a nil err still ends the program with that code, silently.
func withCode(code int, err error) error { return &exitError{code: code, err: err} }

// usageError marks a mistake of the caller.
func usageError(err error) error { return withCode(codeUsage, err) }

func codeOf(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return codeInternal
}

// oneLine folds an error text into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// usageArgs wraps a cobra argument check so that its error has the usage code.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(errors.New(err.Error() + "; see: " + cmd.CommandPath() + " --help"))
		}
		return nil
	}
}
