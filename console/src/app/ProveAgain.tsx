import { useNavigate } from '@tanstack/react-router';
import { Button, Form, Input, Modal } from 'antd';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, onEnrolmentRequired, stepUp } from '../api/client';
import { secondFactor } from '../api/mfa';
import { asProblem } from '../api/problem';
import type { components } from '../api/schema';
import { goToProvider } from '../lib/sso';
import { askSecurityKey, securityKeysWork } from '../lib/webauthn';
import { useMe } from './data';
import { ProblemView } from './ui';
import { useSave } from './useSave';

type Challenge = components['schemas']['MfaAwaited'];

interface Proof {
  password: string;
  code?: string;
  /** What a security key is asked, when that is to prove it. */
  challenge?: Challenge;
}

/** Asks for the password, and the second factor where there is one, when the server wants a fresh proof. */
export function ProveAgain() {
  const { t } = useTranslation();
  const open = useSyncExternalStore(stepUp.subscribe, () => stepUp.open);
  const me = useMe();
  const [form] = Form.useForm<Proof>();
  const [wantsCode, setWantsCode] = useState(false);
  const [challenge, setChallenge] = useState<Challenge>();
  const { busy, problem, save, reset } = useSave<Proof>(form, async (v) => {
    try {
      await got(api.POST('/v1/auth/step-up', { body: { password: v.password, ...(await factorOf(v)) } }));
    } catch (err) {
      const asked = asProblem(err).code === 'mfa_code_required' && !wantsCode;
      if (asked || v.challenge) {
        await ask(); // a key answers each challenge once
      }
      if (asked) {
        return;
      }
      throw err;
    }
    end(true);
  });

  async function ask() {
    setWantsCode(true);
    setChallenge(undefined);
    if (securityKeysWork()) {
      setChallenge(await got(api.POST('/v1/auth/step-up/challenge')));
    }
  }

  async function byKey() {
    const { password } = await form.validateFields(['password']);
    await save({ password, challenge });
  }

  function end(proved: boolean) {
    form.resetFields();
    reset();
    setWantsCode(false);
    setChallenge(undefined);
    stepUp.answer(proved);
  }

  const federated = problem?.code === 'federated_session';
  return (
    <Modal
      open={open}
      // Above the dialog whose action needs the proof.
      zIndex={1900}
      title={t('step_up.title')}
      okText={t('step_up.submit')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      mask={{ closable: false }}
      onOk={form.submit}
      onCancel={() => end(false)}
      destroyOnHidden
    >
      <p>{t('step_up.text')}</p>
      {problem && <ProblemView problem={problem} />}
      {federated && me.data && (
        <p>
          <Button onClick={() => void goToProvider({ tenant_id: me.data.tenant_id, fresh: true })}>
            {t('step_up.at_provider')}
          </Button>
        </p>
      )}
      <Form form={form} name="step_up" layout="vertical" onFinish={save}>
        {/* Tells password managers whose password it is. */}
        <input type="text" hidden readOnly autoComplete="username" value={me.data?.email ?? ''} />
        <Form.Item name="password" label={t('form.password')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="password" autoComplete="current-password" maxLength={128} autoFocus />
        </Form.Item>
        {challenge?.webauthn_options && (
          <p>
            <Button loading={busy} onClick={() => void byKey()}>
              {t('webauthn.use')}
            </Button>
          </p>
        )}
        {wantsCode && (
          <Form.Item name="code" label={t('sign_in.code')} rules={[{ required: true, message: t('form.required') }]}>
            <Input autoComplete="one-time-code" maxLength={40} autoFocus />
          </Form.Item>
        )}
      </Form>
    </Modal>
  );
}

async function factorOf({ code, challenge }: Proof) {
  if (challenge?.webauthn_options) {
    return { mfa_token: challenge.mfa_token, credential: await askSecurityKey(challenge.webauthn_options) };
  }
  return code ? secondFactor(code) : {};
}

/** Leads whoever lacks the second factor that their tenant asks for to the place where they add one. */
export function useEnrolment() {
  const navigate = useNavigate();
  useEffect(
    () => onEnrolmentRequired(() => void navigate({ to: '/account', search: { enrol: true }, replace: true })),
    [navigate],
  );
}
