package trace

import (
	"fmt"
	"math"
)

// check holds the limits of a Meta.
func (m *Meta) check() error {
	if len(m.Warnings) > MaxWarnings {
		return fmt.Errorf("warnings: %w", limitError("MaxWarnings", MaxWarnings))
	}
	if len(m.Settings) > MaxSettings {
		return fmt.Errorf("settings: %w", limitError("MaxSettings", MaxSettings))
	}
	if math.IsNaN(m.CoversPercent) || m.CoversPercent < 0 || m.CoversPercent > 100 {
		return fmt.Errorf("%w: covers %v%% is not between 0 and 100", ErrArgument, m.CoversPercent)
	}
	if m.Device < 0 {
		return fmt.Errorf("%w: device %d is negative", ErrArgument, m.Device)
	}
	if !validUTF8(append([]string{m.Source, m.Title}, m.Warnings...)...) {
		return fmt.Errorf("%w: source, title or a warning is not valid UTF-8", ErrArgument)
	}
	for k, v := range m.Settings {
		if !validUTF8(k, v) {
			return fmt.Errorf("%w: settings key %q is not valid UTF-8", ErrArgument, k)
		}
		if !legalKey(k) {
			return fmt.Errorf("%w: settings key %q is empty or holds '='", ErrArgument, k)
		}
		if len(k)+len(v) > MaxStringBytes {
			return fmt.Errorf("settings: %w", limitError("MaxStringBytes", MaxStringBytes))
		}
	}
	for _, s := range append([]string{m.Source, m.Title}, m.Warnings...) {
		if len(s) > MaxStringBytes {
			return fmt.Errorf("meta: %w", limitError("MaxStringBytes", MaxStringBytes))
		}
	}
	return nil
}
