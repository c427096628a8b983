import { expect, it } from 'vitest';
import { groupTopic } from './topicName';

it('tells the topics of a group from others', () => {
  expect(groupTopic('%RETRY%hello-group')).toEqual({ kind: 'retry', group: 'hello-group' });
  expect(groupTopic('%DLQ%hello-group')).toEqual({ kind: 'dead', group: 'hello-group' });
  for (const other of ['hello', 'RETRY-hello', '%RETRY%', '%OTHER%x', '']) {
    expect(groupTopic(other), other).toBeUndefined();
  }
});
