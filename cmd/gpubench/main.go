// Command gpubench compares GPU memory allocator policies on real recordings, checks allocators for correctness, and
// explains why memory ran out. One binary does everything that needs no GPU; it also starts itself as the plugin process of the built-in strategies and as the guard
// that every plugin runs under. Each verb has its own file: it parses, calls a package, and prints; text and JSON come from
// one struct.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(mainCode(os.Args[1:])) }

// mainCode runs the program and returns its exit code; hidden process roles come first because they own stdin and stdout.
func mainCode(args []string) int {
	if code, ok := hiddenRole(args); ok {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return codeOK
	}
	if ctx.Err() != nil && !errors.As(err, new(*exitError)) {
		err = withCode(codeInterrupted, err)
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "gpubench: "+oneLine(text))
	}
	return codeOf(err)
}
