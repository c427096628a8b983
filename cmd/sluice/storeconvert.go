package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicemq/sluice/dataplane/storetool"
)

func (r *storeRun) convertCommand() *cobra.Command {
	var to string
	c := r.command("convert", "give the queues of a stopped store another layout", func(context.Context) error {
		layout, err := storetool.ParseLayout(to)
		if err != nil {
			return usageError{fmt.Errorf("--to: %w", err)}
		}
		told := 0
		err = storetool.Convert(r.opts, layout, func(done, total int) {
			if done*10/total > told {
				told = done * 10 / total
				fmt.Fprintf(r.err, "%d of %d queues are converted\n", done, total)
			}
		})
		if err != nil {
			return err
		}
		if !r.table() {
			return r.encode(map[string]string{"queue_layout": layout.String()})
		}
		_, err = fmt.Fprintf(r.out, "The queues have the %s layout: set store.queue_layout to %s.\n", layout, layout)
		return err
	})
	c.Long = "Writes the queues of a stopped store anew: as compact, pages of a few shared files, for any number of topics, or as compatible, the files of RocketMQ, which a RocketMQ broker takes over as they are. The store must have been stopped cleanly. An interrupted conversion changes nothing and can be begun again."
	c.Flags().StringVar(&to, "to", "", "compatible or compact")
	r.outputFlag(c)
	return c
}
