import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { App, Form, Input, InputNumber, Modal, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { groupCode } from '../ascode';
import { useMay } from '../data';
import { Listing } from '../Listing';
import { PrefixFilter } from '../PrefixFilter';
import { compact, type ListSearch } from '../search';
import { AsCode, MayButton, PageHead, Phase, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';

const route = getRouteApi('/n/$ns/groups');

export function Groups() {
  const { t } = useTranslation();
  const { ns } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayCreate = useMay('group:write', { ns });
  const [creating, setCreating] = useState(false);
  const query = useQuery({
    queryKey: ['groups', ns, search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/namespaces/{ns}/groups', {
          params: { path: { ns }, query: { prefix: search.prefix, page_token: search.page } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

  function show(next: ListSearch, replace = false) {
    void navigate({ search: compact(next), replace });
  }

  return (
    <>
      <PageHead
        title={t('groups.title')}
        lead={t('groups.lead')}
        actions={
          <MayButton type="primary" may={mayCreate} onClick={() => setCreating(true)} data-testid="create-group">
            {t('groups.create')}
          </MayButton>
        }
      />
      <search className="filters">
        <PrefixFilter
          key={ns}
          value={search.prefix ?? ''}
          onChange={(prefix) => show({ prefix: prefix || undefined }, true)}
        />
      </search>
      <Listing<Schemas['Group']>
        query={query}
        label={t('groups.title')}
        empty={t('groups.empty')}
        onClear={search.prefix || search.page ? () => show({}) : undefined}
        page={search.page}
        onPage={(page) => show({ ...search, page })}
        columns={[
          {
            title: t('field.name'),
            render: (_, r) => (
              <Link to="/n/$ns/groups/$group" params={{ ns, group: r.name }}>
                {r.name}
              </Link>
            ),
          },
          { title: t('groups.order'), render: (_, r) => t(`group_order.${r.order}`) },
          {
            title: t('groups.consume'),
            render: (_, r) => (r.consume_enabled ? t('state.on') : t('state.off')),
          },
          { title: t('field.status'), render: (_, r) => <Phase status={r.status} /> },
          { title: t('field.created'), render: (_, r) => <Time at={r.created_at} /> },
        ]}
      />
      <CreateGroup ns={ns} open={creating} onClose={() => setCreating(false)} />
    </>
  );
}

interface Values {
  name: string;
  order?: Schemas['GroupOrder'];
  max_attempts?: number | null;
  description?: string;
}

function toCreate(v: Values): Schemas['GroupCreate'] {
  return compact({
    name: v.name,
    order: v.order,
    retry: v.max_attempts ? { max_attempts: v.max_attempts } : undefined,
    description: v.description,
  });
}

function CreateGroup({ ns, open, onClose }: { ns: string; open: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [form] = Form.useForm<Values>();
  const values = Form.useWatch((v: Values) => v, form) ?? { name: '' };
  const { busy, problem, save, reset } = useSave<Values>(form, async (v) => {
    const group = await got(
      api.POST('/v1/namespaces/{ns}/groups', {
        params: { path: { ns }, query: { wait: '10s' } },
        body: toCreate(v),
      }),
    );
    await queries.invalidateQueries({ queryKey: ['groups', ns] });
    void message.success(t('groups.created', { name: group.name }));
    close();
    void navigate({ to: '/n/$ns/groups/$group', params: { ns, group: group.name } });
  });

  function close() {
    reset();
    form.resetFields();
    onClose();
  }

  return (
    <Modal
      open={open}
      title={t('groups.create')}
      okText={t('action.create')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={close}
      width={640}
    >
      {problem && <ProblemView problem={problem} />}
      <Form form={form} layout="vertical" onFinish={save} initialValues={{ order: 'concurrent', max_attempts: 16 }}>
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[
            { required: true, message: t('form.required') },
            { pattern: /^[A-Za-z0-9_-]{1,100}$/, message: t('form.name_pattern') },
          ]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        <div className="row">
          <Form.Item name="order" label={t('groups.order')}>
            <Select
              options={(['concurrent', 'fifo'] as const).map((v) => ({ value: v, label: t(`group_order.${v}`) }))}
            />
          </Form.Item>
          <Form.Item name="max_attempts" label={t('groups.max_attempts')}>
            <InputNumber min={1} max={1000} precision={0} />
          </Form.Item>
        </div>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
      </Form>
      <AsCode {...groupCode(ns, toCreate(values))} />
    </Modal>
  );
}
