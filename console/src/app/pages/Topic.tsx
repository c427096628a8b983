import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Descriptions, Form, Input, InputNumber, Modal, Select, Switch, Tabs } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { formatBytes, formatCount } from '../../lib/format';
import { topicCode } from '../ascode';
import { useLocale, useMay } from '../data';
import { durationPattern } from '../patterns';
import { topicTabs } from '../search';
import { AsCode, Badge, ConfirmByName, Copyable, MayButton, Outcome, PageHead, Phase, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';
import { Accessors } from './access/Accessors';
import { LiveTail } from './topic/LiveTail';
import { Messages } from './topic/Messages';
import { SendMessage } from './topic/SendMessage';

const route = getRouteApi('/n/$ns/topics/$topic');

export function Topic() {
  const { t } = useTranslation();
  const { ns, topic: name } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({
    queryKey: ['topic', ns, name],
    queryFn: ({ signal }) =>
      got(api.GET('/v1/namespaces/{ns}/topics/{topic}', { params: { path: { ns, topic: name } }, signal })),
    refetchInterval: (q) => (q.state.data?.status.phase === 'pending' ? 2000 : false),
  });
  const part = { ns, topic: name };
  const reads = useMay('message:read', part);
  const allowed = {
    overview: true,
    messages: reads,
    send: useMay('message:write', part),
    tail: reads,
    access: useMay('acl:read', { ns }),
  };
  const tab = search.tab && allowed[search.tab] ? search.tab : 'overview';
  const views = {
    overview: (topic: Schemas['Topic']) => <Overview topic={topic} />,
    messages: (topic: Schemas['Topic']) => <Messages ns={ns} topic={topic.name} />,
    send: (topic: Schemas['Topic']) => <SendMessage topic={topic} />,
    tail: (topic: Schemas['Topic']) => <LiveTail ns={ns} topic={topic.name} />,
    access: (topic: Schemas['Topic']) => <Accessors ns={ns} resource="topic" name={topic.name} />,
  };
  return (
    <>
      <PageHead
        title={name}
        tags={query.data && <Badge>{t(`topic_type.${query.data.type}`)}</Badge>}
        actions={query.data && <TopicActions topic={query.data} />}
      />
      <Outcome query={query}>
        {(topic) => (
          <Tabs
            activeKey={tab}
            destroyOnHidden
            onChange={(key) => void navigate({ search: key === 'overview' ? {} : { tab: key as typeof tab } })}
            items={topicTabs
              .filter((key) => allowed[key])
              .map((key) => ({
                key,
                label: t(`topic.tab_${key}`),
                children: key === tab ? views[key](topic) : null,
              }))}
          />
        )}
      </Outcome>
    </>
  );
}

function TopicActions({ topic }: { topic: Schemas['Topic'] }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const mayWrite = useMay('topic:write', { ns: topic.namespace_id, topic: topic.name });
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const [open, setOpen] = useState<'edit' | 'delete'>();
  const path = { ns: topic.namespace_id, topic: topic.name };
  return (
    <>
      <MayButton may={mayWrite} onClick={() => setOpen('edit')}>
        {t('action.edit')}
      </MayButton>
      <MayButton danger may={mayWrite} onClick={() => setOpen('delete')}>
        {t('action.delete')}
      </MayButton>
      <EditTopic topic={topic} open={open === 'edit'} onClose={() => setOpen(undefined)} />
      <ConfirmByName
        open={open === 'delete'}
        title={t('topic.delete_title', { name: topic.name })}
        text={t('topic.delete_text')}
        name={topic.name}
        action={t('action.delete')}
        onClose={() => setOpen(undefined)}
        run={async () => {
          await got(
            api.DELETE('/v1/namespaces/{ns}/topics/{topic}', {
              params: { path, query: { wait: '10s' }, header: { 'If-Match': etag(topic) } },
            }),
          );
          void message.success(t('topic.deleted', { name: topic.name }));
          await queries.invalidateQueries({ queryKey: ['topics', topic.namespace_id] });
          void navigate({ to: '/n/$ns/topics', params: { ns: topic.namespace_id } });
        }}
      />
    </>
  );
}

function Overview({ topic }: { topic: Schemas['Topic'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  return (
    <>
      <Descriptions
        bordered
        column={{ xs: 1, lg: 2 }}
        size="small"
        items={[
          { key: 'id', label: t('field.id'), children: <Copyable text={topic.id} what={t('field.id')} /> },
          { key: 'status', label: t('field.status'), children: <Phase status={topic.status} /> },
          { key: 'type', label: t('topics.type'), children: t(`topic_type.${topic.type}`) },
          { key: 'queues', label: t('topics.queues'), children: formatCount(topic.queues, locale) },
          { key: 'retention', label: t('topics.retention'), children: topic.retention },
          {
            key: 'max',
            label: t('topics.max_message'),
            children: (
              <span title={String(topic.max_message_bytes)}>{formatBytes(topic.max_message_bytes, locale)}</span>
            ),
          },
          {
            key: 'tps',
            label: t('topics.max_send_tps'),
            children: topic.max_send_tps === 0 ? t('state.no_limit') : formatCount(topic.max_send_tps, locale),
          },
          { key: 'perm', label: t('topics.perm'), children: t(`perm.${topic.perm}`) },
          { key: 'description', label: t('field.description'), children: topic.description || t('state.none') },
          {
            key: 'protection',
            label: t('field.deletion_protection'),
            children: topic.deletion_protection ? t('state.on') : t('state.off'),
          },
          { key: 'created', label: t('field.created'), children: <Time at={topic.created_at} /> },
          { key: 'updated', label: t('field.updated'), children: <Time at={topic.updated_at} /> },
        ]}
      />
      <h2>{t('as_code.show')}</h2>
      <AsCode {...topicCode(topic.namespace_id, topic)} />
    </>
  );
}

function EditTopic({ topic, open, onClose }: { topic: Schemas['Topic']; open: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['TopicUpdate']>();
  const key = ['topic', topic.namespace_id, topic.name];
  const { busy, problem, save, reset } = useSave<Schemas['TopicUpdate']>(form, async (v) => {
    try {
      const changed = await got(
        api.PATCH('/v1/namespaces/{ns}/topics/{topic}', {
          params: {
            path: { ns: topic.namespace_id, topic: topic.name },
            query: { wait: '10s' },
            header: { 'If-Match': etag(topic) },
          },
          body: v,
        }),
      );
      queries.setQueryData(key, changed);
      void queries.invalidateQueries({ queryKey: ['topics', topic.namespace_id] });
      void message.success(t('state.saved'));
      close();
    } catch (err) {
      // After a change by somebody else the new state is fetched; what was typed stays and can be saved on top of it.
      void queries.invalidateQueries({ queryKey: key });
      throw err;
    }
  });

  function close() {
    reset();
    onClose();
  }

  return (
    <Modal
      open={open}
      title={t('topic.edit_title', { name: topic.name })}
      okText={t('action.save')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={close}
      destroyOnHidden
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        layout="vertical"
        preserve={false}
        onFinish={(v) => save({ ...v, description: v.description ?? '' })}
        initialValues={topic}
      >
        <Form.Item name="queues" label={t('topics.queues')} extra={t('topic.queues_hint')}>
          <InputNumber min={topic.queues} max={64} precision={0} />
        </Form.Item>
        <Form.Item
          name="retention"
          label={t('topics.retention')}
          rules={[{ required: true, pattern: durationPattern, message: t('form.duration_pattern') }]}
        >
          <Input />
        </Form.Item>
        <Form.Item name="max_send_tps" label={t('topics.max_send_tps')} extra={t('topic.tps_hint')}>
          <InputNumber min={0} max={1_000_000} precision={0} />
        </Form.Item>
        <Form.Item name="perm" label={t('topics.perm')}>
          <Select options={(['rw', 'r', 'w'] as const).map((v) => ({ value: v, label: t(`perm.${v}`) }))} />
        </Form.Item>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
        <Form.Item name="deletion_protection" label={t('field.deletion_protection')} valuePropName="checked">
          <Switch />
        </Form.Item>
      </Form>
    </Modal>
  );
}
