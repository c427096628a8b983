import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { App, Form, Input, InputNumber, Modal, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { formatCount } from '../../lib/format';
import { topicCode } from '../ascode';
import { useLocale, useMay } from '../data';
import { Listing } from '../Listing';
import { PrefixFilter } from '../PrefixFilter';
import { durationPattern } from '../patterns';
import { compact, type TopicsSearch, topicTypes } from '../search';
import { AsCode, MayButton, PageHead, Phase, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';

const route = getRouteApi('/n/$ns/topics');

export function Topics() {
  const { t } = useTranslation();
  const locale = useLocale();
  const { ns } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayCreate = useMay('topic:write', { ns });
  const [creating, setCreating] = useState(false);
  const query = useQuery({
    queryKey: ['topics', ns, search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/namespaces/{ns}/topics', {
          params: { path: { ns }, query: { prefix: search.prefix, type: search.type, page_token: search.page } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const filtered = Boolean(search.prefix || search.type || search.page);

  function show(next: TopicsSearch, replace = false) {
    void navigate({ search: compact(next), replace });
  }

  return (
    <>
      <PageHead
        title={t('topics.title')}
        lead={t('topics.lead')}
        actions={
          <MayButton type="primary" may={mayCreate} onClick={() => setCreating(true)} data-testid="create-topic">
            {t('topics.create')}
          </MayButton>
        }
      />
      <search className="filters">
        <PrefixFilter
          key={ns}
          value={search.prefix ?? ''}
          onChange={(prefix) => show({ ...search, prefix: prefix || undefined, page: undefined }, true)}
        />
        <Select
          allowClear
          aria-label={t('topics.type')}
          placeholder={t('topics.any_type')}
          className="filter"
          value={search.type}
          options={topicTypes.map((v) => ({ value: v, label: t(`topic_type.${v}`) }))}
          onChange={(type) => show({ ...search, type, page: undefined })}
        />
      </search>
      <Listing<Schemas['Topic']>
        query={query}
        label={t('topics.title')}
        empty={t('topics.empty')}
        onClear={filtered ? () => show({}) : undefined}
        page={search.page}
        onPage={(page) => show({ ...search, page })}
        columns={[
          {
            title: t('field.name'),
            render: (_, r) => (
              <Link to="/n/$ns/topics/$topic" params={{ ns, topic: r.name }}>
                {r.name}
              </Link>
            ),
          },
          { title: t('topics.type'), render: (_, r) => t(`topic_type.${r.type}`) },
          { title: t('topics.queues'), align: 'end', render: (_, r) => formatCount(r.queues, locale) },
          { title: t('topics.retention'), dataIndex: 'retention' },
          { title: t('field.status'), render: (_, r) => <Phase status={r.status} /> },
          { title: t('field.created'), render: (_, r) => <Time at={r.created_at} /> },
        ]}
      />
      <CreateTopic ns={ns} open={creating} onClose={() => setCreating(false)} />
    </>
  );
}

function CreateTopic({ ns, open, onClose }: { ns: string; open: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['TopicCreate']>();
  const values = Form.useWatch((v: Schemas['TopicCreate']) => v, form) ?? { name: '' };
  const { busy, problem, save, reset } = useSave<Schemas['TopicCreate']>(form, async (v) => {
    const topic = await got(
      api.POST('/v1/namespaces/{ns}/topics', {
        params: { path: { ns }, query: { wait: '10s' } },
        body: compact(v),
      }),
    );
    await queries.invalidateQueries({ queryKey: ['topics', ns] });
    void message.success(
      t(topic.status.phase === 'ready' ? 'topics.created' : 'topics.created_pending', { name: topic.name }),
    );
    close();
    void navigate({ to: '/n/$ns/topics/$topic', params: { ns, topic: topic.name } });
  });

  function close() {
    reset();
    form.resetFields();
    onClose();
  }

  return (
    <Modal
      open={open}
      title={t('topics.create')}
      okText={t('action.create')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={close}
      okButtonProps={{ 'data-testid': 'submit-topic' }}
      width={640}
    >
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        layout="vertical"
        onFinish={save}
        initialValues={{ type: 'NORMAL', queues: 4, retention: '72h' }}
      >
        <Form.Item
          name="name"
          label={t('field.name')}
          extra={t('topics.name_hint')}
          rules={[
            { required: true, message: t('form.required') },
            { pattern: /^[A-Za-z0-9_-]{1,100}$/, message: t('form.name_pattern') },
          ]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        <div className="row">
          <Form.Item name="type" label={t('topics.type')}>
            <Select options={topicTypes.map((v) => ({ value: v, label: t(`topic_type.${v}`) }))} />
          </Form.Item>
          <Form.Item name="queues" label={t('topics.queues')}>
            <InputNumber min={1} max={64} precision={0} />
          </Form.Item>
          <Form.Item
            name="retention"
            label={t('topics.retention')}
            rules={[{ pattern: durationPattern, message: t('form.duration_pattern') }]}
          >
            <Input autoComplete="off" />
          </Form.Item>
        </div>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
      </Form>
      <AsCode {...topicCode(ns, values)} />
    </Modal>
  );
}
