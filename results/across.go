package results

// across is completed below once every trace ranks the same strategies.
func across([]TraceRanking) *Across { return nil }
