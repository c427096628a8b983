/** Topics that the system makes for a group: what came back to be tried again, and what used up its attempts. */
const made = { '%RETRY%': 'retry', '%DLQ%': 'dead' } as const;

export function groupTopic(topic: string): { kind: (typeof made)[keyof typeof made]; group: string } | undefined {
  for (const [prefix, kind] of Object.entries(made)) {
    if (topic.startsWith(prefix) && topic.length > prefix.length) {
      return { kind, group: topic.slice(prefix.length) };
    }
  }
  return undefined;
}
