package bounds

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
)

func load(t testing.TB, name string) []Buffer {
	f, err := os.Open("testdata/minimalloc-" + name + ".1048576.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []Buffer
	for _, r := range rows[1:] {
		l, _ := strconv.ParseInt(r[1], 10, 64)
		u, _ := strconv.ParseInt(r[2], 10, 64)
		s, _ := strconv.ParseUint(r[3], 10, 64)
		out = append(out, Buffer{r[0], l, u, s})
	}
	return out
}
