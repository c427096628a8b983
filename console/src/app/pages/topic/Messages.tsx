import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Button, Form, Input, Segmented } from 'antd';
import type { TFunction } from 'i18next';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../../api/client';
import { fromLocalInput, toLocalInput } from '../../localTime';
import { compact, lookups, type TopicSearch } from '../../search';
import { DataTable, Nothing, Outcome, Pager, Time } from '../../ui';
import { MessageView } from './MessageView';

const route = getRouteApi('/n/$ns/topics/$topic');

interface Values {
  from?: string;
  to?: string;
  key?: string;
  id?: string;
  queue?: string;
  offset?: string;
}

/** What must be given before there is something to ask. */
const needed = { time: [], key: ['key'], id: ['id'], offset: ['queue', 'offset'] } as const;

/** Looks at stored messages: by time, by key, by id, or from a place in a queue. The address holds what is asked. */
export function Messages({ ns, topic }: { ns: string; topic: string }) {
  const { t } = useTranslation();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const by = search.by ?? 'time';
  const [form] = Form.useForm<Values>();
  const ready = needed[by].every((name) => search[name]);
  const { from, to, key, id, queue, offset } = search;
  const asked = { by, from, to, key, id, queue, offset };
  const query = useQuery({
    queryKey: ['messages', ns, topic, asked, search.page],
    enabled: ready,
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/namespaces/{ns}/topics/{topic}/messages', {
          params: { path: { ns, topic }, query: { ...lookup(by, search), page_token: search.page, page_size: 50 } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

  function show(next: TopicSearch) {
    void navigate({ search: compact({ tab: 'messages' as const, ...next }) });
  }

  function ask(v: Values) {
    switch (by) {
      case 'time':
        return show({ by, from: fromLocalInput(v.from), to: fromLocalInput(v.to) });
      case 'key':
        return show({ by, key: v.key?.trim() });
      case 'id':
        return show({ by, id: v.id?.trim() });
      case 'offset':
        return show({ by, queue: v.queue?.trim(), offset: v.offset?.trim() });
    }
  }

  return (
    <>
      <Segmented
        aria-label={t('messages.by')}
        className="gap"
        value={by}
        options={lookups.map((v) => ({ value: v, label: t(`messages.by_${v}`) }))}
        onChange={(v) => show({ by: v as typeof by })}
      />
      <Form
        key={by}
        form={form}
        layout="inline"
        className="gap"
        onFinish={ask}
        initialValues={{ from: toLocalInput(from), to: toLocalInput(to), key, id, queue, offset }}
      >
        {by === 'time' && (
          <>
            <Form.Item name="from" label={t('field.from')}>
              <Input type="datetime-local" step={1} />
            </Form.Item>
            <Form.Item name="to" label={t('field.to')}>
              <Input type="datetime-local" step={1} />
            </Form.Item>
          </>
        )}
        {by === 'key' && (
          <Form.Item
            name="key"
            label={t('message.key')}
            rules={[{ required: true, pattern: /^\s*\S{1,1024}\s*$/, message: t('messages.key_wrong') }]}
          >
            <Input className="wide" autoComplete="off" />
          </Form.Item>
        )}
        {by === 'id' && (
          <Form.Item
            name="id"
            label={t('message.id')}
            rules={[{ required: true, pattern: /^\s*[0-9A-Za-z:_-]{1,128}\s*$/, message: t('messages.id_wrong') }]}
          >
            <Input className="wide" autoComplete="off" />
          </Form.Item>
        )}
        {by === 'offset' && (
          <>
            <Form.Item
              name="queue"
              label={t('message.queue')}
              rules={[{ required: true, pattern: /^\s*\d{1,5}\s*$/, message: t('form.number') }]}
            >
              <Input inputMode="numeric" />
            </Form.Item>
            <Form.Item
              name="offset"
              label={t('message.offset')}
              rules={[{ required: true, pattern: /^\s*\d{1,19}\s*$/, message: t('form.number') }]}
            >
              <Input inputMode="numeric" />
            </Form.Item>
          </>
        )}
        <Button htmlType="submit" type="primary">
          {t('action.search')}
        </Button>
      </Form>
      {!ready ? (
        <p className="muted">{t('messages.ask')}</p>
      ) : (
        <Outcome
          query={query}
          isEmpty={(d) => d.items.length === 0 && !d.next_page_token}
          empty={<Nothing text={t(`messages.none_${by}`)} />}
        >
          {(d) => (
            <>
              <DataTable<Schemas['Message']>
                label={t('topic.tab_messages')}
                rowKey={(m) => `${m.queue}/${m.offset}`}
                size="small"
                dataSource={d.items}
                pagination={false}
                loading={query.isPlaceholderData}
                locale={{ emptyText: t('messages.page_empty') }}
                expandable={{ expandedRowRender: (m) => <MessageView message={m} /> }}
                columns={messageColumns(t)}
              />
              <Pager
                shown={d.items.length}
                page={search.page}
                next={d.next_page_token}
                onPage={(page) => show({ ...asked, page })}
              />
            </>
          )}
        </Outcome>
      )}
    </>
  );
}

function lookup(by: (typeof lookups)[number], s: TopicSearch) {
  switch (by) {
    case 'key':
      return { key: s.key };
    case 'id':
      return { message_id: s.id };
    case 'offset':
      return { queue: Number(s.queue), offset: s.offset };
    case 'time':
      return { from: s.from, to: s.to };
  }
}

export function messageColumns(t: TFunction) {
  return [
    { title: t('message.stored'), render: (_: unknown, m: Schemas['Message']) => <Time at={m.stored_at} /> },
    { title: t('message.queue'), align: 'end' as const, dataIndex: 'queue' },
    { title: t('message.offset'), align: 'end' as const, dataIndex: 'offset' },
    { title: t('message.tag'), dataIndex: 'tag' },
    { title: t('message.keys'), render: (_: unknown, m: Schemas['Message']) => m.keys.join(' ') },
    {
      title: t('message.body'),
      render: (_: unknown, m: Schemas['Message']) => <code className="clip">{m.body.slice(0, 120)}</code>,
    },
  ];
}
