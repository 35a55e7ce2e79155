package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/gpubench/gpubench/plugins/wire"
)

// Errors about options, for errors.Is.
var (
	ErrOptions = errors.New("bad options")        // the user's mistake
	ErrSchema  = errors.New("bad options schema") // the plugin author's mistake
)

// DecodeOptions decodes an options object into the struct that out points to. Fields that the object does not name keep
// their values, so set the defaults first. A key without a field, a value of the wrong type and anything after the object
// are errors that name the key. nil and empty options decode like {}.
func DecodeOptions(options json.RawMessage, out any) error {
	if len(bytes.TrimSpace(options)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(options))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return fmt.Errorf("%w: %s must be %s, not %s", ErrOptions, typ.Field, typ.Type, typ.Value)
		}
		return fmt.Errorf("%w: %s", ErrOptions, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more after the object", ErrOptions)
	}
	return nil
}

// CheckOptions checks an options object against the JSON Schema of a strategy or backend. The error has one line for the
// user, which names the option and what is allowed. An empty schema allows no options.
func CheckOptions(schema, options json.RawMessage) error {
	if len(options) > wire.MaxOptionsBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrOptions, len(options), wire.MaxOptionsBytes)
	}
	if len(bytes.TrimSpace(options)) == 0 {
		options = json.RawMessage("{}")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(options))
	if err != nil {
		return fmt.Errorf("%w: not JSON: %w", ErrOptions, err)
	}
	if _, ok := value.(map[string]any); !ok {
		return fmt.Errorf("%w: must be a JSON object", ErrOptions)
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		return err
	}
	err = compiled.Validate(value)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: %s", ErrOptions, strings.Join(explain(invalid, knownOptions(schema)), "; "))
	}
	return fmt.Errorf("%w: %w", ErrOptions, err)
}

func compileSchema(schema json.RawMessage) (*jsonschema.Schema, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("options.json", doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	s, err := c.Compile("options.json")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return s, nil
}

var english = message.NewPrinter(language.English)

// explain flattens the tree of causes to its leaves.
func explain(e *jsonschema.ValidationError, known []string) []string {
	if len(e.Causes) > 0 {
		var all []string
		for _, c := range e.Causes {
			all = append(all, explain(c, known)...)
		}
		return all
	}
	where := strings.Join(e.InstanceLocation, ".")
	if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		text := "no option " + strings.Join(extra.Properties, ", ")
		if where != "" {
			text += " in " + where
		}
		if where == "" && len(known) > 0 {
			text += " (there are " + strings.Join(known, ", ") + ")"
		}
		return []string{text}
	}
	text := e.ErrorKind.LocalizedString(english)
	if where == "" {
		return []string{text}
	}
	return []string{where + ": " + text}
}

// knownOptions lists the properties at the top of a schema.
func knownOptions(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var names []string
	for n := range s.Properties {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
