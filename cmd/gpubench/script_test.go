package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// update rewrites the expected output in the scripts: UPDATE_SCRIPTS=1 go test ./cmd/gpubench -run Scripts.
var update = os.Getenv("UPDATE_SCRIPTS") != ""

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpubench": func() { os.Exit(mainCode(os.Args[1:])) }})
}

// TestScripts runs the command line as a user does: each script says what is typed and what must come back.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("NO_COLOR", "1")
			return nil
		}})
}
